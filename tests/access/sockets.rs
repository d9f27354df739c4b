//! The runtime directory: sockets and token files that only the server's user can reach.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};

use tonic::Code;
use unified_exec::grpc::auth::Role;
use unified_exec::grpc::listen::{ListenError, RuntimeDirectory, Socket, default_directory, read_token};

use crate::support::{assert_status, edge, list, unix};

/// Nobody, on the systems we know; not us.
const OTHER_UID: u32 = 65_534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().mode() & 0o7777
}

fn runtime() -> (tempfile::TempDir, RuntimeDirectory) {
    let parent = tempfile::tempdir().unwrap();
    let runtime = RuntimeDirectory::open(&parent.path().join("run")).unwrap();
    (parent, runtime)
}

#[test]
fn the_default_directory_is_the_sessions_or_the_users_own() {
    let given = default_directory(Some(Path::new("/run/user/7")));
    assert_eq!(given, Path::new("/run/user/7/unified-exec"));
    let uid = rustix::process::geteuid().as_raw();
    let own = PathBuf::from(format!("/tmp/unified-exec-{uid}"));
    assert_eq!(default_directory(None), own);
    assert_eq!(default_directory(Some(Path::new(""))), own);
}

#[tokio::test]
async fn directory_sockets_and_tokens_are_for_their_user_alone() {
    let (_parent, runtime) = runtime();
    assert_eq!(mode(runtime.path()), 0o700);
    for role in [Role::Agent, Role::Reviewer] {
        let socket = runtime.bind(role).unwrap();
        assert_eq!(socket.path(), runtime.path().join(format!("{role}.sock")));
        assert_eq!(mode(socket.path()), 0o600);
        runtime.token(role).unwrap();
        assert_eq!(mode(&runtime.token_path(role)), 0o600);
    }
    // Again: what is there and safe is taken.
    RuntimeDirectory::open(runtime.path()).unwrap();
}

#[test]
fn a_directory_that_others_could_have_touched_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    for open in [0o755, 0o710, 0o701, 0o777] {
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(open)).unwrap();
        let refused = RuntimeDirectory::open(&path).unwrap_err();
        assert!(matches!(refused, ListenError::Exposed { .. }), "{open:o}: {refused}");
        assert!(refused.to_string().contains("run has mode 0"), "{refused}");
        assert_eq!(mode(&path), open, "refused, not repaired");
        fs::remove_dir(&path).unwrap();
    }
    let safe = parent.path().join("safe");
    RuntimeDirectory::open(&safe).unwrap();
    symlink(&safe, &path).unwrap();
    assert!(matches!(RuntimeDirectory::open(&path), Err(ListenError::Foreign { .. })), "a link");
    fs::remove_file(&path).unwrap();
    fs::write(&path, "").unwrap();
    assert!(matches!(RuntimeDirectory::open(&path), Err(ListenError::Foreign { .. })), "a file");
    if is_root() {
        chown(&safe, Some(OTHER_UID), None).unwrap();
        assert!(matches!(RuntimeDirectory::open(&safe), Err(ListenError::Foreign { .. })), "another user's");
    }
    let missing = RuntimeDirectory::open(&parent.path().join("missing/run")).unwrap_err();
    assert!(missing.to_string().contains("missing/run"), "{missing}");
}

#[test]
fn a_token_is_made_once_and_differs_for_each_role_and_server() {
    let (_one, first) = runtime();
    let (_two, second) = runtime();
    let token = |runtime: &RuntimeDirectory, role| runtime.token(role).unwrap().expose().to_owned();
    let agent = token(&first, Role::Agent);
    assert_eq!(agent.len(), 64, "256 bits");
    assert_eq!(token(&first, Role::Agent), agent);
    assert_eq!(read_token(&first.token_path(Role::Agent)).unwrap().expose(), agent);
    assert_ne!(token(&first, Role::Reviewer), agent);
    assert_ne!(token(&second, Role::Agent), agent);
}

#[test]
fn a_token_file_that_others_can_read_or_that_holds_no_token_is_refused() {
    let (_parent, runtime) = runtime();
    let path = runtime.token_path(Role::Agent);
    let secret = runtime.token(Role::Agent).unwrap().expose().to_owned();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(runtime.token(Role::Agent), Err(ListenError::Exposed { .. })));
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    for bad in ["", "short", "two words that are together long enough"] {
        fs::write(&path, bad).unwrap();
        let refused = runtime.token(Role::Agent).unwrap_err();
        assert!(matches!(refused, ListenError::BadToken { .. }), "{bad:?}: {refused}");
        assert!(bad.is_empty() || !format!("{refused} {refused:?}").contains(bad));
    }
    let elsewhere = runtime.path().join("elsewhere");
    fs::write(&elsewhere, &secret).unwrap();
    fs::set_permissions(&elsewhere, Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(&path).unwrap();
    symlink(&elsewhere, &path).unwrap();
    runtime.token(Role::Agent).unwrap_err();
    if is_root() {
        chown(&elsewhere, Some(OTHER_UID), None).unwrap();
        assert!(matches!(read_token(&elsewhere), Err(ListenError::Foreign { .. })));
    }
}

#[tokio::test]
async fn the_socket_of_a_dead_server_is_replaced() {
    let (_parent, runtime) = runtime();
    let path = runtime.socket_path(Role::Agent);
    // Closed without a word, as a killed server leaves it.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let edge = edge();
    edge.serve_unix(runtime.bind(Role::Agent).unwrap());
    assert_eq!(list(unix(&path), &[]).await.unwrap(), 0);
    edge.shutdown().await;
    assert!(!path.exists(), "a server that ends takes its socket away");
}

#[tokio::test]
async fn the_socket_of_a_live_server_is_refused_by_name_and_left_alone() {
    let (_parent, runtime) = runtime();
    let edge = edge();
    edge.serve_unix(runtime.bind(Role::Agent).unwrap());
    let refused = runtime.bind(Role::Agent).unwrap_err();
    assert!(matches!(refused, ListenError::InUse { .. }), "{refused}");
    assert!(refused.to_string().contains("agent.sock"), "{refused}");
    assert_eq!(list(unix(&runtime.socket_path(Role::Agent)), &[]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_server_that_accepts_nothing_just_now_counts_as_live() {
    let (_parent, runtime) = runtime();
    let busy = runtime.bind(Role::Agent).unwrap();
    // Its queue is full.
    let mut waiting = Vec::new();
    loop {
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::NONBLOCK,
            None,
        )
        .unwrap();
        let address = rustix::net::SocketAddrUnix::new(busy.path()).unwrap();
        match rustix::net::connect(&socket, &address) {
            Ok(()) => waiting.push(socket),
            Err(error) => {
                assert_eq!(error, rustix::io::Errno::AGAIN);
                break;
            }
        }
    }
    assert!(matches!(runtime.bind(Role::Agent), Err(ListenError::InUse { .. })));
}

#[tokio::test]
async fn of_servers_that_start_at_once_exactly_one_gets_the_socket_and_all_the_same_token() {
    // The race is narrow, so it is run often.
    for _ in 0..200 {
        let (_parent, runtime) = runtime();
        drop(std::os::unix::net::UnixListener::bind(runtime.socket_path(Role::Agent)).unwrap());
        let together = Arc::new(Barrier::new(8));
        let mut starts = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let (runtime, together) = (runtime.clone(), Arc::clone(&together));
            let handle = tokio::runtime::Handle::current();
            starts.spawn_blocking(move || {
                let _runtime = handle.enter();
                together.wait();
                (runtime.bind(Role::Agent), runtime.token(Role::Agent).unwrap().expose().to_owned())
            });
        }
        let (sockets, tokens): (Vec<_>, BTreeSet<_>) = starts.join_all().await.into_iter().unzip();
        let sockets: Vec<Socket> = sockets.into_iter().flatten().collect();
        assert_eq!((sockets.len(), tokens.len()), (1, 1));
        assert!(sockets[0].path().exists());
    }
}

#[tokio::test]
async fn nothing_but_an_own_socket_is_ever_removed() {
    let (_parent, runtime) = runtime();
    let path = runtime.socket_path(Role::Agent);
    fs::write(&path, "precious").unwrap();
    assert!(matches!(runtime.bind(Role::Agent), Err(ListenError::Foreign { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn a_peer_of_another_user_is_refused_even_if_it_reaches_the_socket() {
    if !is_root() {
        eprintln!("only root can become another user: not tested here");
        return;
    }
    let (parent, runtime) = runtime();
    let socket = runtime.bind(Role::Agent).unwrap();
    let path = socket.path().to_owned();
    let edge = edge();
    edge.serve_unix(socket);
    for (path, mode) in [(parent.path(), 0o711), (runtime.path(), 0o711), (path.as_path(), 0o666)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let connect = {
        let path = path.clone();
        move || {
            // Of this thread only, and it ends with it.
            let uid = rustix::thread::Uid::from_raw(OTHER_UID);
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            std::os::unix::net::UnixStream::connect(path).unwrap()
        }
    };
    let stream = std::thread::Builder::new().spawn(connect).unwrap().join().unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut stream = Some(hyper_util::rt::TokioIo::new(tokio::net::UnixStream::from_std(stream).unwrap()));
    let take = move |_: tonic::transport::Uri| std::future::ready(stream.take().ok_or("only once"));
    let endpoint = tonic::transport::Endpoint::from_static("http://unix");
    let foreign = endpoint.connect_with_connector_lazy(tower::service_fn(take));
    assert_status(list(foreign, &[]).await, Code::Unauthenticated, "CREDENTIAL_REFUSED");
    assert_eq!(edge.refused_credentials(), 1);
    assert_eq!(list(unix(&path), &[]).await.unwrap(), 0);
}
