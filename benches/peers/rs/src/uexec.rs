//! The service: one streaming ExecCommand a process, one StreamStdin for its input, on one connection over TCP.
use crate::peer::*;
use crate::util::*;
use bytes::Bytes;
use futures::stream::{SelectAll, Stream, StreamExt};
use std::collections::HashMap;
use std::pin::Pin;
use std::time::Duration;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

pub mod pb { tonic::include_proto!("unified_exec.v1"); }
use pb::exec_command_response::Item;
use pb::exec_service_client::ExecServiceClient;
use pb::session_service_client::SessionServiceClient;
use pb::stream_stdin_request::Item as In;

#[derive(Clone)]
struct Bearer(MetadataValue<Ascii>);
impl Interceptor for Bearer {
    fn call(&mut self, mut r: Request<()>) -> Result<Request<()>, Status> {
        r.metadata_mut().insert("authorization", self.0.clone());
        Ok(r)
    }
}

type Exec = ExecServiceClient<InterceptedService<Channel, Bearer>>;

pub struct Uexec {
    rt: tokio::runtime::Runtime,
    c: Exec,
    session: String,
    streams: SelectAll<Pin<Box<dyn Stream<Item = Told>>>>,
    /// our ids to theirs, once they have told
    known: HashMap<u64, u32>,
    inputs: HashMap<u64, tokio::sync::mpsc::Sender<pb::StreamStdinRequest>>,
    n: u64,
}

enum Told { Started(u64, u32), Data(u64, Bytes), Exit(u64, i32), Closed(u64), Broken(u64, Status) }

impl Uexec {
    /// `spec` is ADDRESS,TOKENFILE; the token must be a reviewer's, who may give a session room for thousands.
    pub fn connect(spec: &str) -> R<Self> {
        let (addr, token) = spec.split_once(',').ok_or("uexec@ADDRESS,TOKENFILE")?;
        let token = std::fs::read_to_string(token)?;
        let bearer = Bearer(format!("Bearer {}", token.trim()).parse()?);
        let rt = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (c, session) = rt.block_on(async {
            let ch = Endpoint::from_shared(format!("http://{addr}"))?
                .tcp_nodelay(true)
                .initial_stream_window_size(4 << 20)
                .initial_connection_window_size(8 << 20)
                .connect().await?;
            let mut s = SessionServiceClient::with_interceptor(ch.clone(), bearer.clone());
            let config = pb::SessionConfig {
                cwd: "/tmp".into(),
                approval_policy: Some(pb::ApprovalPolicy { mode: pb::ApprovalMode::Never.into(), ..Default::default() }),
                sandbox: Some(pb::SandboxProfile {
                    kind: pb::SandboxKind::FullAccess.into(),
                    network: Some(pb::NetworkPolicy { mode: pb::NetworkMode::On.into(), ..Default::default() }),
                    ..Default::default()
                }),
                limits: Some(pb::SessionLimits { max_processes: Some(4096), ..Default::default() }),
                ..Default::default()
            };
            let r = s.create_session(pb::CreateSessionRequest { config: Some(config), ..Default::default() }).await?;
            let session = r.into_inner().session.ok_or("no session")?.session_id;
            R::Ok((ExecServiceClient::with_interceptor(ch, bearer), session))
        })?;
        Ok(Uexec { rt, c, session, streams: SelectAll::new(), known: HashMap::new(), inputs: HashMap::new(), n: 0 })
    }

    /// takes one thing from the streams; what is only for us gives None
    fn step(&mut self, timeout_ms: u64) -> R<Option<Ev>> {
        let s = &mut self.streams;
        let t = self.rt.block_on(async { tokio::time::timeout(Duration::from_millis(timeout_ms), s.next()).await });
        Ok(match t {
            Err(_) => Some(Ev::Timeout),
            Ok(None) => return Err("no stream open".into()),
            Ok(Some(Told::Started(id, process))) => { self.known.insert(id, process); None }
            Ok(Some(Told::Data(id, d))) => Some(Ev::Data(id, d)),
            Ok(Some(Told::Exit(id, c))) => Some(Ev::Exit(id, c)),
            Ok(Some(Told::Closed(id))) => { self.inputs.remove(&id); self.known.remove(&id); Some(Ev::Closed(id)) }
            Ok(Some(Told::Broken(id, status))) => return Err(format!("process {id}: {status}").into()),
        })
    }

    fn process(&self, id: u64) -> R<u32> { self.known.get(&id).copied().ok_or_else(|| "it has not started".into()) }
}

fn told(id: u64, item: Option<Item>) -> Vec<Told> {
    match item {
        Some(Item::Started(s)) => vec![Told::Started(id, s.process_id)],
        Some(Item::Output(o)) => vec![Told::Data(id, o.data)],
        Some(Item::Result(r)) => vec![Told::Exit(id, r.exit.map_or(-1, |e| e.shell_code)), Told::Closed(id)],
        Some(_) | None => vec![],
    }
}

impl Peer for Uexec {
    fn start(&mut self, argv: &[String], pty: bool) -> R<u64> {
        self.n += 1;
        let id = self.n;
        let request = pb::ExecCommandRequest {
            session_id: self.session.clone(),
            command: Some(pb::Command { argv: argv.to_vec(), ..Default::default() }),
            tty: pty,
            follow: true,
            flow: pb::Flow::Block.into(),
            max_output_tokens: Some(0),
            ..Default::default()
        };
        let mut c = self.c.clone();
        let stream = futures::stream::once(async move { c.exec_command(request).await })
            .flat_map(move |r| match r {
                Ok(r) => r.into_inner().flat_map(move |m| {
                    futures::stream::iter(match m { Ok(m) => told(id, m.item), Err(s) => vec![Told::Broken(id, s)] })
                }).boxed_local(),
                Err(s) => futures::stream::iter([Told::Broken(id, s)]).boxed_local(),
            });
        self.streams.push(Box::pin(stream));
        Ok(id)
    }
    fn next(&mut self, timeout_ms: u64) -> R<Ev> {
        loop { if let Some(e) = self.step(timeout_ms)? { return Ok(e); } }
    }
    fn write(&mut self, id: u64, d: &[u8]) -> R<()> {
        let process_id = self.process(id)?;
        let frame = pb::StreamStdinRequest { item: Some(In::Data(pb::StdinData { offset: None, data: Bytes::copy_from_slice(d) })) };
        if let Some(tx) = self.inputs.get(&id) { tx.try_send(frame)?; return Ok(()); }
        let (tx, rx) = tokio::sync::mpsc::channel(64);
        let open = pb::StdinOpen { session_id: self.session.clone(), process_id, ..Default::default() };
        tx.try_send(pb::StreamStdinRequest { item: Some(In::Open(open)) })?;
        tx.try_send(frame)?;
        let mut c = self.c.clone();
        let _in = self.rt.enter();
        tokio::spawn(async move { let _ = c.stream_stdin(tokio_stream::wrappers::ReceiverStream::new(rx)).await; });
        self.inputs.insert(id, tx);
        Ok(())
    }
    fn kill(&mut self, id: u64) -> R<()> {
        let request = pb::SignalProcessRequest {
            session_id: self.session.clone(), process_id: self.process(id)?, signal: "KILL".into(),
            scope: pb::SignalScope::Tree.into(), ..Default::default()
        };
        // Sent at once, as the others do; the answer comes when it comes.
        let mut c = self.c.clone();
        self.rt.block_on(async move {
            tokio::spawn(async move { let _ = c.signal_process(request).await; });
            for _ in 0..16 { tokio::task::yield_now().await }
        });
        Ok(())
    }
}
