//! What may be reached, and every way around a closed network that we know of.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::thread;

use unified_exec::core::limits::PROXY_PORT;
use unified_exec::core::policy::{Network, NetworkDecision, NetworkRule, Profile};
use unified_exec::core::spawn::{Mechanism, Stdio};

use crate::bench::Bench;
use crate::run::Running;

/// How programs say that they may not have a socket, or that there is nobody there.
const CLOSED: &[&str] = &[
    "not permitted",
    "Permission denied",
    "unreachable",
    "resolve host",
    "Couldn't connect",
    "resolution",
    "not known",
    "No such file",
    "refused",
];

/// Somebody outside who answers whoever gets through.
fn outside() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[test]
fn tcp_udp_raw_and_other_sockets_are_closed() {
    let bench = Bench::new();
    let (_listener, port) = outside();
    let tcp = format!("import socket; socket.create_connection(('127.0.0.1', {port}), 5)");
    for code in [
        tcp.as_str(),
        "import socket; socket.create_connection(('1.1.1.1', 53), 5)",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('1.1.1.1', 53))",
        "import socket; socket.socket(socket.AF_INET6, socket.SOCK_STREAM).connect(('::1', 1))",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)",
        "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
        "import socket; socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
        "import socket; socket.getaddrinfo('example.org', 80)",
    ] {
        bench.python(&bench.workspace(), code).denied(CLOSED);
    }
}

#[test]
fn tools_cannot_get_out() {
    let bench = Bench::new();
    let (_listener, port) = outside();
    for line in [
        format!("curl -sS -m 5 http://127.0.0.1:{port}/"),
        "curl -sS -m 5 http://example.org/".to_owned(),
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}"),
        "exec 3<>/dev/udp/1.1.1.1/53 && echo x >&3".to_owned(),
    ] {
        bench.sh(&bench.workspace(), &line).denied(CLOSED);
    }
}

#[test]
fn rings_of_system_calls_that_no_filter_sees_are_closed() {
    let bench = Bench::new();
    let code = "import ctypes, os\n\
                libc = ctypes.CDLL(None, use_errno=True)\n\
                buf = ctypes.create_string_buffer(120)\n\
                print(libc.syscall(425, 8, buf), os.strerror(ctypes.get_errno()))";
    let text = bench.python(&bench.workspace(), code).succeeded();
    assert!(text.starts_with("-1 "), "io_uring_setup came to {text}");
}

#[test]
fn abstract_sockets_of_the_outside_are_not_there() {
    let bench = Bench::new();
    let name = format!("uexec-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let code = format!("import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}')");
    bench.python(&bench.workspace(), &code).denied(CLOSED);
}

#[test]
fn sockets_of_the_service_cannot_be_connected_to_by_any_name() {
    let runtime = tempfile::tempdir_in("/var/tmp").unwrap();
    let socket = runtime.path().join("agent.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    let hidden = vec![runtime.path().to_owned()];
    let bench = Bench::with(unified_exec::spawn::Options { hidden, ..Default::default() });
    let path = socket.display();
    for name in [format!("{path}"), format!("/proc/self/root{path}"), format!("/proc/1/root{path}")] {
        let code = format!("import socket; socket.socket(socket.AF_UNIX).connect('{name}')");
        bench.python(&bench.workspace(), &code).denied(CLOSED);
    }
    let on = Profile { network: Network::On, ..bench.workspace() };
    let code = format!("import socket; socket.socket(socket.AF_UNIX).connect('{path}')");
    bench.python(&on, &code).denied(CLOSED);
}

#[test]
fn sockets_inside_the_workspace_and_pairs_work() {
    let bench = Bench::new();
    let code = "import socket\n\
                server = socket.socket(socket.AF_UNIX); server.bind('s.sock'); server.listen()\n\
                client = socket.socket(socket.AF_UNIX); client.connect('s.sock')\n\
                client.send(b'hi'); print(server.accept()[0].recv(2))\n\
                a, b = socket.socketpair(); a.send(b'pair'); print(b.recv(4))";
    let text = bench.python(&bench.workspace(), code).succeeded();
    assert!(text.contains("b'hi'") && text.contains("b'pair'"), "{text}");
}

#[test]
fn an_open_network_is_open_and_the_files_stay_closed() {
    let bench = Bench::new();
    let (listener, port) = outside();
    let answering = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.write_all(b"welcome").unwrap();
    });
    let on = Profile { network: Network::On, ..bench.workspace() };
    let code = format!("import socket; print(socket.create_connection(('127.0.0.1', {port}), 5).recv(7))");
    assert!(bench.python(&on, &code).succeeded().contains("welcome"));
    answering.join().unwrap();
    bench.sh(&on, "echo x > /etc/file").denied(&["Read-only file system", "Permission denied"]);
}

#[test]
fn a_proxied_child_reaches_the_proxys_listener_and_nothing_else() {
    let bench = Bench::new();
    let (_listener, port) = outside();
    let rule = NetworkRule { host: "*".into(), ports: Vec::new(), decision: NetworkDecision::Allow };
    let proxied = Profile { network: Network::Proxied { rules: vec![rule] }, ..bench.workspace() };
    let code = format!(
        "import socket\n\
         try: socket.create_connection(('127.0.0.1', {port}), 5); print('OUT')\n\
         except OSError as error: print('closed', error)\n\
         s = socket.create_connection(('127.0.0.1', {PROXY_PORT}), 5); s.send(b'hello'); print(s.recv(5))"
    );
    let plan = bench.plan(&proxied, &["/usr/bin/python3", "-c", &code], Stdio::Pipes { stdin: false });
    let text = bench.block_on(async {
        let mut spawned = bench.start(plan).await.unwrap();
        assert!(spawned.enforced.mechanisms.contains(&Mechanism::Proxy), "{:?}", spawned.enforced);
        let listener = spawned.proxy.take().expect("a listener inside the child's network");
        let serving = tokio::task::spawn_blocking(move || {
            listener.set_nonblocking(false).unwrap();
            let (mut client, _): (TcpStream, _) = listener.accept().unwrap();
            let mut said = [0; 5];
            client.read_exact(&mut said).unwrap();
            client.write_all(&said).unwrap();
        });
        let seen = Running::new(spawned).ended().await;
        serving.await.unwrap();
        seen.text()
    });
    assert!(text.contains("closed") && text.contains("b'hello'") && !text.contains("OUT"), "{text}");
}
