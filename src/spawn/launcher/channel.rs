//! The pair of sockets between launcher and server: datagrams that arrive whole and in order, with the sender's pid and
//! descriptors attached.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair, sockopt,
};

use super::message::MESSAGE_BYTES_MAX;

/// One datagram.
#[derive(Debug)]
pub(in crate::spawn) struct Received {
    pub(in crate::spawn) bytes: Vec<u8>,
    /// The sender's pid as the receiver sees it.
    pub(in crate::spawn) pid: Option<u32>,
    /// A descriptor that came along.
    pub(in crate::spawn) descriptor: Option<OwnedFd>,
}

/// A new pair: the server's end, which is told who sends, and the launcher's.
pub(in crate::spawn) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (server, launcher) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_passcred(&server, true)?;
    Ok((server, launcher))
}

/// Sends one datagram, with `descriptor` if there is one. Never raises SIGPIPE.
pub(in crate::spawn) fn send(
    to: BorrowedFd<'_>,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
    flags: SendFlags,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    sendmsg(to, &[IoSlice::new(bytes)], &mut control, flags | SendFlags::NOSIGNAL).map(drop)
}

/// Takes one datagram; `None` at the end, when nobody holds the other side any more.
pub(in crate::spawn) fn receive(from: BorrowedFd<'_>, flags: RecvFlags) -> Result<Option<Received>, Errno> {
    let mut bytes = vec![0; MESSAGE_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1), ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let into = &mut [IoSliceMut::new(&mut bytes)];
        match recvmsg(from, into, &mut control, flags | RecvFlags::CMSG_CLOEXEC) {
            // The other side has gone and left something unread. That is told once, before what it has said.
            Err(Errno::INTR | Errno::CONNRESET) => {}
            other => break other?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    bytes.truncate(received.bytes);
    let (mut pid, mut descriptor) = (None, None);
    for message in control.drain() {
        match message {
            RecvAncillaryMessage::ScmCredentials(sender) => {
                pid = Some(sender.pid.as_raw_nonzero().get().unsigned_abs());
            }
            RecvAncillaryMessage::ScmRights(descriptors) => descriptor = descriptors.last(),
            _ => {}
        }
    }
    Ok(Some(Received { bytes, pid, descriptor }))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn what_was_said_last_arrives_from_one_who_did_not_listen() {
        let (server, launcher) = pair().unwrap();
        send(launcher.as_fd(), b"the last word", None, SendFlags::empty()).unwrap();
        send(server.as_fd(), b"unheard", None, SendFlags::empty()).unwrap();
        drop(launcher);
        let received = receive(server.as_fd(), RecvFlags::DONTWAIT).unwrap().unwrap();
        assert_eq!(received.bytes, b"the last word");
        assert_eq!(received.pid, Some(std::process::id()));
        assert!(receive(server.as_fd(), RecvFlags::DONTWAIT).unwrap().is_none());
    }
}
