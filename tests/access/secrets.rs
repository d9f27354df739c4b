//! Secrets appear in no log and no error.

use std::io;
use std::sync::{Arc, Mutex};

use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;
use unified_exec::grpc::auth::{Caller, Role, Token, Tokens, own_owner};
use unified_exec::grpc::listen::RuntimeDirectory;

use crate::support::{edge, list, plain};

/// All that is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn right_and_wrong_tokens_stay_out_of_the_most_talkative_log_and_of_errors() {
    let log = Log::default();
    // Everything, that of the HTTP library too; for the whole process, as the server's tasks run on any thread.
    let subscriber = tracing_subscriber::fmt().with_max_level(Level::TRACE).with_writer(log.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();

    let parent = tempfile::tempdir().unwrap();
    let runtime = RuntimeDirectory::open(&parent.path().join("run")).unwrap();
    let right = runtime.token(Role::Agent).unwrap();
    let wrong = Token::parse(&"0123456789abcdef".repeat(4)).unwrap();
    let tokens = Tokens::new().with(&right, Caller { owner: own_owner(), role: Role::Agent });
    let edge = edge();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    edge.serve_tcp(listener, tokens.clone(), None).unwrap();
    let call = async |token: &Token| {
        list(plain(address), &[("authorization", &format!("Bearer {}", token.expose()))]).await
    };
    call(&right).await.unwrap();
    let mut shown = format!("{right:?} {tokens:?} {edge:?}");
    for _ in 0..5 {
        shown += &format!("{:?}", call(&wrong).await.unwrap_err());
    }
    edge.shutdown().await;

    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(logged.contains("credential refused"), "the refusal is logged");
    for secret in [right.expose(), wrong.expose()] {
        assert!(!shown.contains(secret));
        assert!(!logged.contains(secret));
    }
}
