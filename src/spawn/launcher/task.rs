//! What the launcher is to do, as the server writes it into a memory file that the launcher inherits. Never in the
//! environment or the arguments, where others could read it.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::Resource;

use super::codec::{Reader, Writer};
use crate::spawn::sandbox::landlock::Rules;
use crate::spawn::sandbox::seccomp::{Filter, Sockets};

/// What the launcher is to do.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(in crate::spawn) struct Task {
    pub(in crate::spawn) place: Place,
    /// Whether to wait for a word of the server before the command runs.
    pub(in crate::spawn) hold: bool,
    pub(in crate::spawn) argv: Vec<Vec<u8>>,
    /// Each `NAME=value`.
    pub(in crate::spawn) env: Vec<Vec<u8>>,
    pub(in crate::spawn) limits: Vec<Limit>,
    pub(in crate::spawn) filter: Option<Filter>,
    pub(in crate::spawn) rules: Option<Rules>,
}

/// Where the launcher finds itself.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(in crate::spawn) enum Place {
    /// Outside: it is the child, with its directory, terminal and descriptors, and becomes the command.
    #[default]
    Outside,
    /// The first process of a namespace, which starts the command and stays.
    Inside {
        /// Where the command is to be.
        cwd: Vec<u8>,
        /// Whether its descriptors are one terminal; else three.
        terminal: bool,
        /// Where on the loopback to listen for the proxy.
        proxy_port: Option<u16>,
    },
}

/// A limit of the process that is set before the command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::spawn) struct Limit {
    pub(in crate::spawn) kind: LimitKind,
    pub(in crate::spawn) soft: Option<u64>,
    pub(in crate::spawn) hard: Option<u64>,
}

macro_rules! limit_kinds {
    ($($name:ident = $number:literal),* $(,)?) => {
        /// Which limit of the process.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(in crate::spawn) enum LimitKind { $($name),* }

        impl LimitKind {
            const fn number(self) -> u64 {
                match self { $(Self::$name => $number),* }
            }

            fn from_number(number: u64) -> Result<Self, Errno> {
                match number { $($number => Ok(Self::$name),)* _ => Err(Errno::BADMSG) }
            }

            pub(in crate::spawn) const fn resource(self) -> Resource {
                match self { $(Self::$name => Resource::$name),* }
            }
        }
    };
}

limit_kinds! { As = 0, Nproc = 1, Cpu = 2, Nofile = 3, Fsize = 4 }

impl Task {
    /// Writes it where the launcher can read it.
    pub(in crate::spawn) fn into_file(self) -> Result<OwnedFd, Errno> {
        memory_file(c"task", &self.encode())
    }

    /// Reads it again.
    pub(super) fn from_file(file: OwnedFd) -> Result<Self, Errno> {
        let mut bytes = Vec::new();
        File::from(file)
            .read_to_end(&mut bytes)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Self::decode(&mut Reader::new(&bytes))
    }

    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match &self.place {
            Place::Outside => writer.number(0),
            Place::Inside { cwd, terminal, proxy_port } => {
                writer.number(1).string(cwd).number(u64::from(*terminal));
                writer.optional(*proxy_port, |writer, port| {
                    writer.number(u64::from(port));
                })
            }
        };
        writer.number(u64::from(self.hold));
        for strings in [&self.argv, &self.env] {
            writer.list(strings, |writer, item| {
                writer.string(item);
            });
        }
        writer.list(&self.limits, |writer, limit| {
            writer.number(limit.kind.number());
            for bound in [limit.soft, limit.hard] {
                writer.optional(bound, |writer, bound| {
                    writer.number(bound);
                });
            }
        });
        writer.optional(self.filter, |writer, filter| {
            writer.number(filter.sockets.number()).number(u64::from(filter.namespace));
        });
        writer.optional(self.rules.as_ref(), |writer, rules| {
            for paths in [&rules.read, &rules.write] {
                writer.optional(paths.as_ref(), |writer, paths| {
                    writer.list(paths, |writer, path| {
                        writer.string(path.as_bytes());
                    });
                });
            }
            writer.number(u64::from(rules.no_tcp)).number(u64::from(rules.required));
        });
        writer.finish()
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Errno> {
        let place = match reader.number()? {
            0 => Place::Outside,
            _ => Place::Inside {
                cwd: reader.bytes()?,
                terminal: reader.flag()?,
                proxy_port: reader.optional(Reader::small)?,
            },
        };
        Ok(Self {
            place,
            hold: reader.flag()?,
            argv: reader.list(Reader::bytes)?,
            env: reader.list(Reader::bytes)?,
            limits: reader.list(|reader| {
                Ok(Limit {
                    kind: LimitKind::from_number(reader.number()?)?,
                    soft: reader.optional(Reader::number)?,
                    hard: reader.optional(Reader::number)?,
                })
            })?,
            filter: reader.optional(|reader| {
                Ok(Filter { sockets: Sockets::from_number(reader.number()?)?, namespace: reader.flag()? })
            })?,
            rules: reader.optional(|reader| {
                Ok(Rules {
                    read: reader.optional(|reader| reader.list(Reader::text))?,
                    write: reader.optional(|reader| reader.list(Reader::text))?,
                    no_tcp: reader.flag()?,
                    required: reader.flag()?,
                })
            })?,
        })
    }
}

/// A file in memory that holds `bytes`, at its beginning.
pub(in crate::spawn) fn memory_file(name: &std::ffi::CStr, bytes: &[u8]) -> Result<OwnedFd, Errno> {
    let io = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let mut file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(bytes).map_err(io)?;
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    Ok(file.into())
}

/// Strings as the system takes them. They came from such strings, so none holds a null byte.
pub(super) fn c_strings(strings: &[Vec<u8>]) -> Result<Vec<CString>, Errno> {
    strings.iter().map(|string| CString::new(string.as_slice()).map_err(|_| Errno::INVAL)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_arrives_as_it_was_sent() {
        let task = Task {
            place: Place::Inside { cwd: b"/w\xff".to_vec(), terminal: true, proxy_port: Some(3128) },
            hold: true,
            argv: vec![b"sh".to_vec(), b"".to_vec()],
            env: vec![b"A=\xfe".to_vec()],
            limits: vec![Limit { kind: LimitKind::Cpu, soft: Some(2), hard: None }],
            filter: Some(Filter { sockets: Sockets::Loopback, namespace: true }),
            rules: Some(Rules {
                read: None,
                write: Some(vec!["/w".to_owned()]),
                no_tcp: true,
                required: false,
            }),
        };
        let file = task.clone().into_file().unwrap();
        assert_eq!(Task::from_file(file), Ok(task));
    }
}
