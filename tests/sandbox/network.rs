//! What may be reached, off, on and through the proxy.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use unified_exec::core::limits::PROXY_PORT;
use unified_exec::core::policy::{Files, Network, Profile};
use unified_exec::core::spawn::{Mechanism, Stdio};
use unified_exec::spawn::Options;

use crate::bench::Bench;
use crate::run::{Running, soon};

const DENIED: &[&str] = &["Operation not permitted", "PermissionError"];

fn proxied(bench: &Bench) -> Profile {
    Profile { network: Network::Proxied { rules: Vec::new() }, ..bench.workspace() }
}

#[test]
fn without_a_network_nothing_outside_is_reached() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    const UNREACHABLE: &[&str] = &["Network is unreachable"];
    for (code, refusal) in [
        (format!("socket.create_connection(('127.0.0.1', {port}))"), &["ConnectionRefused"][..]),
        ("socket.create_connection(('8.8.8.8', 53), 5)".to_owned(), UNREACHABLE),
        ("socket.create_connection(('2001:4860:4860::8888', 53), 5)".to_owned(), UNREACHABLE),
        (
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('8.8.8.8', 53))".to_owned(),
            UNREACHABLE,
        ),
        ("socket.getaddrinfo('example.com', 80)".to_owned(), &["gaierror"]),
        ("socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)".to_owned(), DENIED),
        ("socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)".to_owned(), DENIED),
        ("socket.socket(socket.AF_PACKET, socket.SOCK_RAW)".to_owned(), DENIED),
        ("socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)".to_owned(), DENIED),
    ] {
        bench.python(&bench.workspace(), &format!("import socket; {code}")).denied(refusal);
    }
    let curl = format!("curl -sS -m 5 http://127.0.0.1:{port}/ || curl -sS -m 5 http://8.8.8.8/");
    bench.sh(&bench.workspace(), &curl).denied(&["curl:"]);
    bench.sh(&bench.workspace(), &format!("echo x > /dev/tcp/127.0.0.1/{port}")).denied(&["refused"]);
    assert!(listener.accept().is_err(), "somebody came out");
}

#[test]
fn without_a_network_the_loopback_is_ones_own() {
    let bench = Bench::new();
    for (family, address) in [("AF_INET", "127.0.0.1"), ("AF_INET6", "::1")] {
        let code = format!(
            "import socket\n\
             l = socket.socket(socket.{family}); l.bind(('{address}', 0)); l.listen()\n\
             c = socket.socket(socket.{family}); c.connect(l.getsockname()[:2])\n\
             l.accept()[0].sendall(b'y'); assert c.recv(1) == b'y'\n\
             d = socket.socket(socket.{family}, socket.SOCK_DGRAM); d.bind(('{address}', 0))\n\
             d.sendto(b'z', d.getsockname()[:2]); assert d.recv(1) == b'z'\n"
        );
        bench.python(&bench.workspace(), &code).succeeded();
    }
    let line = "ip -o link | cut -d: -f2; ip route; ip link set lo down";
    bench.sh(&bench.workspace(), line).denied(&["Operation not permitted"]);
}

#[test]
fn with_a_network_everything_is_reached() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let profile = Profile { network: Network::On, ..bench.workspace() };
    let accepted = std::thread::spawn(move || listener.accept().map(|_| ()));
    let code = format!("import socket; socket.create_connection(('127.0.0.1', {port}))");
    bench.python(&profile, &code).succeeded();
    accepted.join().unwrap().unwrap();
    bench.sh(&profile, "echo x > ../beside/file").denied(&["Read-only"]);
}

#[test]
fn a_proxied_network_leads_to_the_proxy_alone() {
    let bench = Bench::new();
    let outside = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port();
    let code = format!(
        "import socket\n\
         s = socket.create_connection(('127.0.0.1', {PROXY_PORT}))\n\
         s.sendall(b'ask'); print(s.recv(9).decode())\n\
         for address in [('127.0.0.1', {port}), ('8.8.8.8', 53)]:\n\
         \x20   try: socket.create_connection(address, 3); print('reached', address)\n\
         \x20   except OSError as error: print(type(error).__name__)\n\
         socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)\n"
    );
    let plan =
        bench.plan(&proxied(&bench), &["/usr/bin/python3", "-c", &code], Stdio::Pipes { stdin: false });
    let text = bench.block_on(async {
        let mut spawned = bench.start(plan).await.unwrap();
        assert!(spawned.enforced.mechanisms.contains(&Mechanism::Proxy));
        let proxy = spawned.proxy.take().unwrap();
        let served = tokio::task::spawn_blocking(move || {
            let (mut asker, _) = proxy.accept().unwrap();
            let mut asked = [0; 3];
            asker.read_exact(&mut asked).unwrap();
            asker.write_all(b"answer").unwrap();
            asked
        });
        let running = Running::new(spawned);
        assert_eq!(&soon("the proxy", served).await.unwrap(), b"ask");
        running.ended().await.text()
    });
    assert!(text.contains("answer") && !text.contains("reached"), "{text}");
    assert!(text.contains("PermissionError"), "sockets of virtual machines have no namespace: {text}");
}

#[test]
fn sockets_of_others_are_out_of_reach() {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let hidden = home.path().join("service");
    std::fs::create_dir(&hidden).unwrap();
    let bench = Bench::with(Options { hidden: vec![hidden.clone()], ..Options::default() });
    let _of_the_service = UnixListener::bind(hidden.join("sock")).unwrap();
    let beside = bench.path("beside/sock");
    let _of_another = UnixListener::bind(&beside).unwrap();
    let name = format!("sandbox-test-{}", std::process::id());
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    for network in [Network::Off, Network::On, proxied(&bench).network] {
        for files in [Files::ReadOnly, Files::FullAccess] {
            let profile = Profile { files, network: network.clone(), deny_read: Vec::new() };
            if profile.restricts_nothing() {
                continue;
            }
            let socket = format!("{}/sock", hidden.display());
            for address in [
                format!("/proc/self/root{socket}"),
                format!("/proc/1/root{socket}"),
                socket,
                beside.display().to_string(),
                format!("\\0{name}"),
            ] {
                let code = format!("import socket; socket.socket(socket.AF_UNIX).connect('{address}')");
                bench.python(&profile, &code).denied(&[
                    "PermissionError",
                    "FileNotFoundError",
                    "ConnectionRefused",
                ]);
            }
        }
    }
}

#[test]
fn sockets_of_their_own_work() {
    let bench = Bench::new();
    let code = "import socket, threading\n\
                a, b = socket.socketpair(); a.sendall(b'x'); assert b.recv(1) == b'x'\n\
                l = socket.socket(socket.AF_UNIX); l.bind('sock'); l.listen()\n\
                c = socket.socket(socket.AF_UNIX); c.connect('sock'); l.accept()[0].sendall(b'y')\n\
                assert c.recv(1) == b'y'\n";
    bench.python(&bench.workspace(), code).succeeded();
}

#[test]
fn rings_that_no_filter_sees_are_absent() {
    let bench = Bench::new();
    let code = "import ctypes, os\n\
                libc = ctypes.CDLL(None, use_errno=True)\n\
                assert libc.syscall(425, 8, ctypes.create_string_buffer(120)) == -1\n\
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))\n";
    bench.python(&bench.workspace(), code).denied(&["Function not implemented"]);
}
