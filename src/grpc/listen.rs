//! Where clients find the server: a runtime directory with its sockets and tokens.
//!
//! Everything lies in one directory that only the server's user can enter, so that one rule can hide it from sandboxed
//! children: `agent.sock`, `reviewer.sock`, `agent.token`, `reviewer.token`.
//!
//! Nothing here trusts what it finds. A directory, token file or socket that others could have touched is refused, not
//! repaired: whoever could touch it may have read it already.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use rand::TryRng as _;
use rand::rngs::SysRng;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::geteuid;
use tokio::net::UnixListener;

use super::auth::{BadToken, Role, Token};

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// What others may do with a file or directory.
const OTHERS_MASK: u32 = 0o077;
/// 256 bits: beyond guessing.
const TOKEN_BYTES: usize = 32;
/// No token file is larger.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

/// Why the server cannot listen there.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The operating system refused.
    #[error("cannot {action} {path}")]
    System {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something of another user, or of another kind, is there.
    #[error("{path} is not {expected} of this user (uid {uid}); remove it or choose another place")]
    Foreign {
        /// What is there.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
        /// The server's user.
        uid: u32,
    },
    /// Others have access.
    #[error("{path} has mode {mode:04o}, so that other users can get at it; set it to {wanted:04o}")]
    Exposed {
        /// What is there.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// The mode it should have.
        wanted: u32,
    },
    /// A server listens there already.
    #[error("a server is already listening on {path}; stop it or choose another runtime directory")]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// A token file holds no token.
    #[error("{path} holds no token; remove it to get a new one")]
    BadToken {
        /// The file.
        path: PathBuf,
        /// Why.
        source: BadToken,
    },
    /// The operating system gave no randomness.
    #[error("the operating system gave no random bytes for a token: {0}")]
    NoRandomness(String),
}

fn system(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ListenError {
    move |source| ListenError::System { action, path: path.to_owned(), source }
}

/// The runtime directory unless the configuration names another: `unified-exec` in the given `$XDG_RUNTIME_DIR`, else
/// one in /tmp.
pub fn default_directory(xdg_runtime_dir: Option<&Path>) -> PathBuf {
    match xdg_runtime_dir {
        Some(directory) if directory.is_absolute() => directory.join("unified-exec"),
        _ => PathBuf::from(format!("/tmp/unified-exec-{}", geteuid().as_raw())),
    }
}

/// The directory of a server's sockets and tokens.
#[derive(Clone, Debug)]
pub struct RuntimeDirectory(PathBuf);

impl RuntimeDirectory {
    /// Makes the directory, or takes one that nobody else can enter.
    pub fn open(path: &Path) -> Result<Self, ListenError> {
        match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(system("create the directory", path)(error)),
        }
        // Not followed if it is a link: in /tmp anybody can put one there.
        let found = path.symlink_metadata().map_err(system("look at", path))?;
        check(path, &found, found.is_dir(), "a directory", DIRECTORY_MODE)?;
        Ok(Self(path.to_owned()))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The socket of a role.
    pub fn socket_path(&self, role: Role) -> PathBuf {
        self.0.join(format!("{role}.sock"))
    }

    /// The token file of a role.
    pub fn token_path(&self, role: Role) -> PathBuf {
        self.0.join(format!("{role}.token"))
    }

    /// Listens for a role. Must be called within a tokio runtime.
    pub fn bind(&self, role: Role) -> Result<Socket, ListenError> {
        Socket::bind(&self.socket_path(role), role)
    }

    /// The token of a role; a new one at first.
    pub fn token(&self, role: Role) -> Result<Token, ListenError> {
        let path = self.token_path(role);
        let _one_at_a_time = lock(&self.0)?;
        match read_token(&path) {
            Err(ListenError::System { source, .. }) if source.kind() == ErrorKind::NotFound => {
                create_token(&path)
            }
            token => token,
        }
    }
}

/// The token in a file that nobody else can read.
pub fn read_token(path: &Path) -> Result<Token, ListenError> {
    // Not blocked by a pipe that somebody put there, and no link followed.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(system("open", path))?;
    let found = file.metadata().map_err(system("look at", path))?;
    check(path, &found, found.is_file(), "a file", FILE_MODE)?;
    let mut text = String::new();
    file.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text).map_err(system("read", path))?;
    Token::parse(&text).map_err(|source| ListenError::BadToken { path: path.to_owned(), source })
}

/// Writes beside and renames, so that a crash leaves no half token.
fn create_token(path: &Path) -> Result<Token, ListenError> {
    let mut bytes = [0; TOKEN_BYTES];
    SysRng.try_fill_bytes(&mut bytes).map_err(|error| ListenError::NoRandomness(error.to_string()))?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let token =
        Token::parse(&text).map_err(|source| ListenError::BadToken { path: path.to_owned(), source })?;
    let beside = path.with_extension("new");
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(system("remove", &beside)(error)),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(&beside)
        .map_err(system("create", &beside))?;
    writeln!(file, "{}", token.expose()).and_then(|()| file.sync_all()).map_err(system("write", &beside))?;
    std::fs::rename(&beside, path).map_err(system("create", path))?;
    Ok(token)
}

fn check(
    path: &Path,
    found: &Metadata,
    kind: bool,
    expected: &'static str,
    wanted: u32,
) -> Result<(), ListenError> {
    let uid = geteuid().as_raw();
    if !kind || found.uid() != uid {
        return Err(ListenError::Foreign { path: path.to_owned(), expected, uid });
    }
    let mode = found.mode() & 0o7777;
    if mode & OTHERS_MASK != 0 {
        return Err(ListenError::Exposed { path: path.to_owned(), mode, wanted });
    }
    Ok(())
}

/// Held while one server looks at what is there and puts its own: two that start at once must not both find it free.
fn lock(directory: &Path) -> Result<File, ListenError> {
    let file = File::open(directory).map_err(system("open", directory))?;
    flock(&file, FlockOperation::LockExclusive).map_err(|error| system("lock", directory)(error.into()))?;
    Ok(file)
}

/// A listening Unix socket; its file goes away with it.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    role: Role,
    file: SocketFile,
}

/// The file of a socket, removed on drop if it is still ours.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Socket {
    /// Listens at `path`, whoever comes has `role`. The socket of a dead server is replaced, a live one's is not.
    /// Must be called within a tokio runtime.
    pub fn bind(path: &Path, role: Role) -> Result<Self, ListenError> {
        let _one_at_a_time = lock(path.parent().unwrap_or_else(|| Path::new("/")))?;
        remove_stale(path)?;
        let listener = UnixListener::bind(path).map_err(system("listen on", path))?;
        std::fs::set_permissions(path, Permissions::from_mode(FILE_MODE))
            .map_err(system("set the mode of", path))?;
        let found = path.symlink_metadata().map_err(system("look at", path))?;
        let file = SocketFile { path: path.to_owned(), identity: (found.dev(), found.ino()) };
        Ok(Self { listener, role, file })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// The role of whoever comes.
    pub fn role(&self) -> Role {
        self.role
    }

    pub(super) fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system("look at", path)(error)),
    };
    let uid = geteuid().as_raw();
    if !found.file_type().is_socket() || found.uid() != uid {
        return Err(ListenError::Foreign { path: path.to_owned(), expected: "a socket", uid });
    }
    // Only a refused connection says that nobody listens any more; a full queue, for one, does not.
    match knock(path) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path).map_err(system("remove", path)),
        _ => Err(ListenError::InUse { path: path.to_owned() }),
    }
}

/// Connects, without waiting for a server that is too busy.
fn knock(path: &Path) -> rustix::io::Result<()> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A later server may have replaced it, if this one was slow to go.
        let ours =
            self.path.symlink_metadata().is_ok_and(|found| (found.dev(), found.ino()) == self.identity);
        if ours {
            std::fs::remove_file(&self.path).ok();
        }
    }
}
