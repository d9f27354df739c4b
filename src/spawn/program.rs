//! Finds what a plan names: the working directory, and the program as the child itself would find it. Turns a failed
//! start into the one error that says what was wrong. Called by `start`; starts nothing.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, accessat, openat, statat};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::core::command::EnvVar;
use crate::core::spawn::SpawnError;

/// Where programs are looked for when the child's environment has no `PATH`; what glibc's `execvp` takes.
const PATH_DEFAULT: &[u8] = b"/bin:/usr/bin";
/// What runs a script without a `#!` line, as `execvp` does.
pub(super) const SCRIPT_SHELL: &str = "/bin/sh";
/// How much of a program the kernel looks at to tell its format (`BINPRM_BUF_SIZE`).
const FORMAT_BYTES: usize = 256;
/// Arguments and environment that the kernel takes whatever the stack's limit is (`ARG_MAX`).
const ARGUMENT_BYTES_LEAST: usize = 128 * 1024;
/// Arguments and environment that the kernel takes at most (three quarters of `_STK_LIM`).
const ARGUMENT_BYTES_MOST: usize = 6 * 1024 * 1024;

/// The words of the system for `errno`, without its number.
pub(super) fn words(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// `errno` as a want of something that may be there later, if it is one.
pub(super) fn exhausted(errno: Errno) -> Option<SpawnError> {
    let resource = match errno {
        Errno::MFILE | Errno::NFILE => "descriptors",
        Errno::NOSPC => "terminals",
        Errno::AGAIN => "processes",
        Errno::NOMEM | Errno::NOBUFS => "memory",
        _ => return None,
    };
    Some(SpawnError::Exhausted { resource, reason: words(errno) })
}

/// The error for a step that should not fail, unless something has run out.
pub(super) fn system(action: &'static str, path: impl Into<String>, errno: Errno) -> SpawnError {
    exhausted(errno).unwrap_or_else(|| SpawnError::System { action, path: path.into(), reason: words(errno) })
}

/// The same for an error of the standard library or of the runtime.
pub(super) fn system_io(action: &'static str, path: impl Into<String>, error: &std::io::Error) -> SpawnError {
    match Errno::from_io_error(error) {
        // The runtime's readiness queue is full: each registration needs a slot, as it needs a descriptor.
        Some(Errno::NOSPC) => SpawnError::Exhausted { resource: "descriptors", reason: words(Errno::NOSPC) },
        Some(errno) => system(action, path, errno),
        None => SpawnError::System { action, path: path.into(), reason: error.to_string() },
    }
}

/// Opens the working directory and makes sure that it can be entered. The child enters this very descriptor, so
/// nothing can change between the check and the start, and any later error is the program's.
pub(super) fn enter(path: &str) -> Result<OwnedFd, SpawnError> {
    let denied = |reason: String| SpawnError::CwdDenied { path: path.to_owned(), reason };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Err(SpawnError::CwdMissing { path: path.to_owned() }),
        Err(errno) => return Err(exhausted(errno).unwrap_or_else(|| denied(words(errno)))),
    };
    match accessat(&directory, ".", Access::EXEC_OK, AtFlags::EACCESS) {
        Ok(()) => Ok(directory),
        Err(errno) => Err(denied(words(errno))),
    }
}

/// The program's path as the child can execute it from its working directory.
pub(super) fn find(program: &str, env: &[EnvVar], cwd: BorrowedFd<'_>) -> Result<CString, SpawnError> {
    if program.is_empty() {
        return Err(SpawnError::ProgramMissing { program: String::new() });
    }
    if program.contains('/') {
        return match probe(cwd, program.as_bytes()) {
            Ok(()) => c_string(program.as_bytes()),
            Err(errno) => Err(not_executable(program, errno)),
        };
    }
    let path = env.iter().find(|var| var.name == "PATH").map_or(PATH_DEFAULT, |var| &*var.value);
    let mut denied = false;
    for directory in path.split(|byte| *byte == b':') {
        // An empty element is the working directory, as in every shell.
        let mut candidate = if directory.is_empty() { b".".to_vec() } else { directory.to_vec() };
        candidate.push(b'/');
        candidate.extend_from_slice(program.as_bytes());
        match probe(cwd, &candidate) {
            Ok(()) => return c_string(&candidate),
            Err(Errno::ACCESS) => denied = true,
            Err(errno) => {
                if let Some(error) = exhausted(errno) {
                    return Err(error);
                }
            }
        }
    }
    let program = program.to_owned();
    Err(if denied { SpawnError::ProgramDenied { program } } else { SpawnError::ProgramMissing { program } })
}

/// Whether `path`, seen from `cwd`, is a file that may be executed. `ACCESS` if it is there and may not.
fn probe(cwd: BorrowedFd<'_>, path: &[u8]) -> Result<(), Errno> {
    let path = OsStr::from_bytes(path);
    let found = statat(cwd, path, AtFlags::empty())?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(Errno::ACCESS);
    }
    accessat(cwd, path, Access::EXEC_OK, AtFlags::EACCESS)
}

fn not_executable(program: &str, errno: Errno) -> SpawnError {
    match errno {
        Errno::NOENT | Errno::NOTDIR => SpawnError::ProgramMissing { program: program.to_owned() },
        Errno::ACCESS | Errno::PERM => SpawnError::ProgramDenied { program: program.to_owned() },
        errno => system("execute", program, errno),
    }
}

/// `bytes` as the system takes strings.
pub(super) fn c_string(bytes: &[u8]) -> Result<CString, SpawnError> {
    CString::new(bytes).map_err(|_| SpawnError::System {
        action: "pass",
        path: String::from_utf8_lossy(bytes).into_owned(),
        reason: "it holds a null byte, which the system cannot pass on".to_owned(),
    })
}

/// What a start that failed with `errno` means for `program`, found as `file`.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is a script without a `#!` line.
    RunByShell,
    /// It cannot be started.
    Failed(SpawnError),
}

/// Says why `file`, which was there and executable a moment ago, could not be started.
pub(super) fn explain(errno: Errno, program: &str, file: &CString, cwd: BorrowedFd<'_>) -> Verdict {
    let name = || program.to_owned();
    Verdict::Failed(match errno {
        Errno::NOEXEC => {
            return match head(file, cwd) {
                Some(head) if looks_like_text(&head) => Verdict::RunByShell,
                _ => Verdict::Failed(SpawnError::ProgramFormat { program: name() }),
            };
        }
        Errno::NOENT | Errno::NOTDIR => match head(file, cwd).as_deref().map(interpreter) {
            Some(Some(interpreter)) => SpawnError::InterpreterMissing { program: name(), interpreter },
            Some(None) => system("execute", program, errno),
            None => SpawnError::ProgramMissing { program: name() },
        },
        Errno::ACCESS | Errno::PERM => SpawnError::ProgramDenied { program: name() },
        Errno::LIBBAD | Errno::INVAL => SpawnError::ProgramFormat { program: name() },
        errno => system("execute", program, errno),
    })
}

/// Why `argv` and `env` are too large, with the numbers.
pub(super) fn too_large(program: &str, argv: &[CString], env: &[CString]) -> SpawnError {
    let sizes = || argv.iter().chain(env).map(|string| string.as_bytes_with_nul().len());
    SpawnError::TooLarge {
        program: program.to_owned(),
        size_bytes: sizes().map(|size| size + size_of::<usize>()).sum(),
        largest_bytes: sizes().max().unwrap_or(0).saturating_sub(1),
        limit_bytes: argument_bytes_max(),
    }
}

/// What the kernel takes in all: a quarter of the stack's limit, within fixed bounds (`fs/exec.c`).
fn argument_bytes_max() -> usize {
    let stack = getrlimit(Resource::Stack).current.unwrap_or(u64::MAX);
    usize::try_from(stack / 4).unwrap_or(usize::MAX).clamp(ARGUMENT_BYTES_LEAST, ARGUMENT_BYTES_MOST)
}

/// The first bytes of a program; `None` if it cannot be read.
fn head(file: &CString, cwd: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = openat(cwd.as_fd(), file.as_c_str(), flags, Mode::empty()).ok()?;
    let mut head = Vec::new();
    File::from(file).take(FORMAT_BYTES as u64).read_to_end(&mut head).ok()?;
    Some(head)
}

/// As bash decides it: no null byte in the first line, and none of the magic of a binary.
fn looks_like_text(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    !head.starts_with(b"\x7fELF") && !line.contains(&0)
}

/// What the `#!` line names, or what an ELF file says loads it.
fn interpreter(head: &[u8]) -> Option<String> {
    let Some(line) = head.strip_prefix(b"#!") else {
        return head.starts_with(b"\x7fELF").then(|| "its dynamic loader".to_owned());
    };
    let line = line.split(|byte| *byte == b'\n').next()?;
    let name = line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty())?;
    Some(String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_is_what_the_first_line_names() {
        assert_eq!(interpreter(b"#!/no/such -x\nrest").as_deref(), Some("/no/such"));
        assert_eq!(
            interpreter(b"#! \t/no/such\r\n").as_deref(),
            Some("/no/such\r"),
            "a DOS line end is part of it"
        );
        assert_eq!(interpreter(b"echo hi"), None);
    }

    #[test]
    fn a_null_byte_in_the_first_line_makes_a_binary() {
        assert!(looks_like_text(b"echo hi\n\0\0"));
        assert!(looks_like_text(b""));
        assert!(!looks_like_text(b"MZ\0\x01\n"));
        assert!(!looks_like_text(b"\x7fELF\n"));
    }

    #[test]
    fn a_missing_directory_and_a_file_in_its_place_are_told_apart() {
        assert_eq!(enter("/no/such").unwrap_err(), SpawnError::CwdMissing { path: "/no/such".into() });
        let denied = enter("/etc/passwd").unwrap_err();
        assert_eq!(
            denied,
            SpawnError::CwdDenied { path: "/etc/passwd".into(), reason: "Not a directory".into() }
        );
    }

    #[test]
    fn path_is_the_childs_own_and_skips_what_cannot_run() {
        let home = tempfile::tempdir().unwrap();
        let cwd = enter(home.path().to_str().unwrap()).unwrap();
        std::fs::create_dir_all(home.path().join("a/tool")).unwrap();
        std::fs::create_dir(home.path().join("b")).unwrap();
        let with = |path: &str| vec![EnvVar::new("PATH", path.to_owned())];
        let found = |path: &str| find("tool", &with(path), cwd.as_fd());
        assert_eq!(
            found("a:b:/none"),
            Err(SpawnError::ProgramDenied { program: "tool".into() }),
            "a directory"
        );
        assert_eq!(found("b"), Err(SpawnError::ProgramMissing { program: "tool".into() }));
        std::fs::copy("/bin/true", home.path().join("b/tool")).unwrap();
        assert_eq!(found("a:b").unwrap().as_bytes(), b"b/tool");
        assert_eq!(find("true", &[], cwd.as_fd()).unwrap().as_bytes(), b"/bin/true");
    }
}
