//! A running proxy, gates that are told what to answer, and origins.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use unified_exec::core::policy::{Egress, Host, NetworkDecision, NetworkRule};
use unified_exec::host::ports::{BoxFuture, Gate, GateAnswer, Proxy as _};
use unified_exec::proxy::{AllowListProxy, Resolve};

pub(crate) use NetworkDecision::{Allow, Ask, Deny};

/// What a loaded machine may take for something that happens at once.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) fn rules(rules: &[(&str, NetworkDecision)]) -> Arc<Egress> {
    let rules: Vec<_> = rules
        .iter()
        .map(|(host, decision)| NetworkRule { host: (*host).into(), ports: Vec::new(), decision: *decision })
        .collect();
    Arc::new(Egress::new(&rules, None).unwrap())
}

/// A question that a gate has put; dropping it unanswered refuses.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) answer: oneshot::Sender<bool>,
}

/// Decides by rules. What they ask about is put to a test, or refused at once if there is nobody to ask.
#[derive(Debug)]
pub(crate) struct RuleGate {
    egress: Arc<Egress>,
    questions: Option<mpsc::UnboundedSender<Held>>,
    asked: Mutex<Vec<String>>,
}

impl RuleGate {
    pub(crate) fn never(egress: Arc<Egress>) -> Arc<Self> {
        Arc::new(Self { egress, questions: None, asked: Mutex::default() })
    }

    pub(crate) fn asking(egress: Arc<Egress>) -> (Arc<Self>, mpsc::UnboundedReceiver<Held>) {
        let (questions, held) = mpsc::unbounded_channel();
        (Arc::new(Self { egress, questions: Some(questions), asked: Mutex::default() }), held)
    }

    /// Everything the proxy wanted to know, as `host:port`.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Gate for RuleGate {
    fn open(&self, host: Host, port: u16) -> BoxFuture<GateAnswer> {
        self.asked.lock().unwrap().push(format!("{host}:{port}"));
        let decision = self.egress.decide(&host, port);
        let (egress, questions) = (Arc::clone(&self.egress), self.questions.clone());
        let refused = |reason: &str| GateAnswer::Refused { reason: reason.to_owned() };
        Box::pin(async move {
            match (decision, questions) {
                (Allow, _) => GateAnswer::Allowed(egress),
                (Deny, _) => refused("a rule refuses it"),
                (Ask, None) => refused("nobody may be asked"),
                (Ask, Some(questions)) => {
                    let (answer, answered) = oneshot::channel();
                    questions.send(Held { host: host.to_string(), port, answer }).unwrap();
                    match answered.await {
                        Ok(true) => GateAnswer::Allowed(egress),
                        _ => refused("somebody said no"),
                    }
                }
            }
        })
    }
}

type Answers = dyn Fn(&str, usize) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Resolves by a function of the name and of how many lookups there were before.
pub(crate) struct Scripted {
    answers: Box<Answers>,
    lookups: Mutex<usize>,
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Scripted")
    }
}

impl Scripted {
    pub(crate) fn new(
        answers: impl Fn(&str, usize) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { answers: Box::new(answers), lookups: Mutex::new(0) })
    }

    /// Every name has these addresses.
    pub(crate) fn to(addresses: &[&str]) -> Arc<Self> {
        let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Self::new(move |_, _| Ok(addresses.clone()))
    }

    pub(crate) fn lookups(&self) -> usize {
        *self.lookups.lock().unwrap()
    }
}

impl Resolve for Scripted {
    fn resolve(&self, name: String) -> BoxFuture<io::Result<Vec<IpAddr>>> {
        let before = {
            let mut lookups = self.lookups.lock().unwrap();
            *lookups += 1;
            *lookups - 1
        };
        let answer = (self.answers)(&name, before);
        Box::pin(async move { answer })
    }
}

/// A proxy that serves one child; ends when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    task: AbortOnDropHandle<()>,
}

impl Running {
    pub(crate) fn start(gate: Arc<dyn Gate>, resolver: Arc<dyn Resolve>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = AllowListProxy::with_resolver(resolver).serve(listener, gate);
        Self { address, task: AbortOnDropHandle::new(tokio::spawn(serving)) }
    }

    /// With rules, nobody to ask, and every name on the loopback.
    pub(crate) fn with_rules(allowed: &[(&str, NetworkDecision)]) -> Self {
        Self::start(RuleGate::never(rules(allowed)), Scripted::to(&["127.0.0.1"]))
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    pub(crate) fn end(self) {
        drop(self.task);
    }

    /// What the proxy says to this until it closes.
    pub(crate) async fn say(&self, request: &[u8]) -> String {
        let mut client = self.connect().await;
        client.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        timeout(SOON, client.read_to_end(&mut answer)).await.unwrap().unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// A tunnel by CONNECT, or the whole answer if there is none.
    pub(crate) async fn tunnel(&self, target: &str) -> Result<TcpStream, String> {
        let mut client = self.connect().await;
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let head = head(&mut client).await;
        if head.starts_with("HTTP/1.1 200 ") {
            return Ok(client);
        }
        let mut body = String::new();
        timeout(SOON, client.read_to_string(&mut body)).await.unwrap().unwrap();
        Err(head + &body)
    }

    /// A tunnel by SOCKS5, or the code of the reply.
    pub(crate) async fn socks(&self, host: &str, port: u16) -> Result<TcpStream, u8> {
        let mut client = self.connect().await;
        client.write_all(&socks_request(host, port)).await.unwrap();
        let mut answer = [0; 12];
        timeout(SOON, client.read_exact(&mut answer)).await.unwrap().unwrap();
        assert_eq!(answer[..3], [5, 0, 5]);
        if answer[3] == 0 { Ok(client) } else { Err(answer[3]) }
    }
}

/// Greeting and CONNECT in one.
pub(crate) fn socks_request(host: &str, port: u16) -> Vec<u8> {
    let mut request = vec![5, 1, 0, 5, 1, 0];
    match host.parse() {
        Ok(IpAddr::V4(address)) => request.extend([&[1][..], &address.octets()].concat()),
        Ok(IpAddr::V6(address)) => request.extend([&[4][..], &address.octets()].concat()),
        Err(_) => {
            request.extend([3, u8::try_from(host.len()).unwrap()]);
            request.extend(host.as_bytes());
        }
    }
    request.extend(port.to_be_bytes());
    request
}

/// The head of a message, to its empty line and no further.
pub(crate) async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = timeout(SOON, stream.read_u8()).await.unwrap();
        match byte {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

/// An origin that sends back what it gets, and ends when its client does.
pub(crate) async fn echo() -> u16 {
    echo_at("127.0.0.1:0").await
}

pub(crate) async fn echo_at(address: &str) -> u16 {
    let listener = TcpListener::bind(address).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = client.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                let _ = writer.shutdown().await;
            });
        }
    });
    port
}

/// An origin that speaks HTTP: answers each request with `answer` once it has its head and the body that
/// `Content-Length` names, reports both, and closes.
pub(crate) async fn web(answer: &'static str) -> (u16, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (seen, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let seen = seen.clone();
            tokio::spawn(async move {
                let mut request = head(&mut client).await;
                let length = request.lines().find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok()
                });
                let mut body = vec![0; length.unwrap_or(0)];
                if client.read_exact(&mut body).await.is_ok() {
                    request += &String::from_utf8_lossy(&body);
                    let _ = seen.send(request);
                    let _ = client.write_all(answer.as_bytes()).await;
                    let _ = client.shutdown().await;
                }
            });
        }
    });
    (port, requests)
}

/// Whether the tunnel really leads to an echo.
pub(crate) async fn echoes(tunnel: &mut TcpStream, words: &str) -> bool {
    tunnel.write_all(words.as_bytes()).await.unwrap();
    let mut back = vec![0; words.len()];
    timeout(SOON, tunnel.read_exact(&mut back)).await.unwrap().unwrap();
    back == words.as_bytes()
}
