//! `uexec attach`: a person at the terminal of a process that runs already.
//!
//! ```text
//!   keyboard ─► input (keys) ─┐                         ┌─► stdout
//!                             ├─► Interact ◄── gRPC ──► loop
//!   window size ──────────────┘                         └─► exit, detach, signals
//! ```
//!
//! Input has a task of its own: a process that does not read must keep nobody from seeing its output or letting go.

mod input;
mod keys;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use self::keys::DetachKeys;
use crate::cli::args::Global;
use crate::cli::connect::Client;
use crate::cli::failure::Failure;
use crate::cli::modes::Modes;
use crate::cli::output::{self, Sink};
use crate::cli::session::SessionArg;
use crate::cli::signals::{Heard, Signals};
use crate::cli::terminal::{self, RawTerminal, Resizes};
use crate::cli::{exit, json};
use crate::grpc::pb;
use crate::grpc::pb::interact_request::Item as Sent;
use crate::grpc::pb::interact_response::Item;

/// Messages on their way to the server; beyond that, typing waits.
const MESSAGES_QUEUED: usize = 8;
/// Code of somebody whom SIGTERM or a lost terminal ended.
const TERMINATED: u8 = exit::SIGNAL_BASE + 15;

/// Sit at the terminal of a process; what it wrote before is shown first
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Every key goes to the process, Ctrl-C too. Ctrl-] and then d lets go of it: it lives on. Ctrl-] twice types one.
Without a terminal on both sides, lines are passed as they are, and Ctrl-C lets go.

Exit codes: 0 after letting go; else the process's own, as `uexec exec` has it.")]
pub(crate) struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// The keys that let go
    #[arg(long, env = "UEXEC_DETACH_KEYS", value_name = "KEYS", default_value = "ctrl-],d")]
    detach_keys: DetachKeys,
    /// Do not show what it wrote before
    #[arg(long, conflicts_with = "from")]
    no_replay: bool,
    /// Show what it wrote from this byte on
    #[arg(long, value_name = "OFFSET")]
    from: Option<u64>,
    /// Lose output rather than stall the process, should we be too slow
    #[arg(long)]
    no_block: bool,
    /// When our stdin ends, end the process's input too
    #[arg(long)]
    eof: bool,
    /// The process
    #[arg(value_name = "ID")]
    process: u32,
}

impl Args {
    fn open(&self, session_id: String, terminal_size: Option<pb::TerminalSize>) -> pb::InteractOpen {
        pb::InteractOpen {
            session_id,
            process_id: self.process,
            cursor: self.from.map(|offset| pb::Cursor { attempt: 0, offset }),
            from_end: self.no_replay,
            flow: if self.no_block { pb::Flow::DropWithGap } else { pb::Flow::Block }.into(),
            terminal_size,
            ..Default::default()
        }
    }
}

/// Attaches.
pub(crate) async fn run(global: &Global, args: Args) -> Result<u8, Failure> {
    let mut client = global.connect().await?;
    let session = args.session.resolve(&mut client).await?;
    let request =
        pb::GetProcessRequest { session_id: session.clone(), process_id: args.process, ..Default::default() };
    let process = client.exec.get_process(request).await?.into_inner().process.unwrap_or_default();
    let raw = process.tty && process.exit.is_none() && terminal::stdin_is_one();
    let size = if raw { terminal::size() } else { None };
    let attachment = Attachment {
        detached: CancellationToken::new(),
        sink: Sink::new(global.json),
        modes: Modes::default(),
        end: None,
    };
    // Restored on every way out of here, since it is dropped.
    let terminal = if raw { Some(RawTerminal::enter()?) } else { None };
    let code = attachment.run(client, &args, args.open(session, size), raw).await;
    drop(terminal);
    if let Ok(None) = code {
        output::note(&format!("let go of {0}; `uexec attach {0}` comes back", args.process));
    }
    code.map(|code| code.unwrap_or(exit::OK))
}

/// One stay at a process.
#[derive(Debug)]
struct Attachment {
    detached: CancellationToken,
    sink: Sink,
    modes: Modes,
    end: Option<pb::Exit>,
}

impl Attachment {
    /// Stays until the process ends (its code) or the person lets go (`None`).
    async fn run(
        mut self,
        mut client: Client,
        args: &Args,
        open: pb::InteractOpen,
        raw: bool,
    ) -> Result<Option<u8>, Failure> {
        let mut signals = Signals::listen()?;
        let (messages, queue) = mpsc::channel(MESSAGES_QUEUED);
        let mut beside = JoinSet::new();
        send(&messages, Sent::Open(open)).await;
        if raw {
            beside.spawn(sizes(messages.clone()));
        }
        let keys = raw.then(|| args.detach_keys.clone());
        beside.spawn(input::forward(messages, keys, args.eof, self.detached.clone()));
        let mut items = client.exec.interact(ReceiverStream::new(queue)).await?.into_inner();
        let code = loop {
            tokio::select! {
                answer = items.message() => match answer? {
                    Some(pb::InteractResponse { item: Some(item) }) => self.show(item).await?,
                    Some(_) => {}
                    None => break self.ended(),
                },
                () = self.detached.cancelled() => break Ok(None),
                heard = signals.next() => match heard {
                    // In raw mode it is a byte, and somebody else sent this.
                    Heard::Interrupt | Heard::Quit => break Ok(None),
                    Heard::Terminate => break Ok(Some(TERMINATED)),
                },
            }
        };
        if raw {
            self.sink.raw(self.modes.undo().as_bytes()).await?;
        }
        code
    }

    async fn show(&mut self, item: Item) -> Result<(), Failure> {
        match item {
            Item::Output(frame) => {
                self.modes.see(&frame.data);
                self.sink.output(&frame).await
            }
            Item::Gap(gap) => self.sink.gap(&gap).await,
            Item::Exited(exited) => {
                self.sink.item("exited", json::value("Exited", &exited)?).await?;
                self.end = exited.exit;
                Ok(())
            }
            Item::ApprovalPending(asked) => self.sink.asked(&asked).await,
            Item::Draining(_) => {
                output::note("the server shuts down");
                Ok(())
            }
            Item::Closed(closed) => self.sink.item("closed", json::value("Closed", &closed)?).await,
            Item::Attached(_)
            | Item::AttemptStarted(_)
            | Item::AttemptDenied(_)
            | Item::StdinCommitted(_)
            | Item::Keepalive(_) => Ok(()),
        }
    }

    fn ended(&self) -> Result<Option<u8>, Failure> {
        match &self.end {
            Some(end) => Ok(Some(exit::of(end))),
            None => Err(Failure::new("the server let go of us; the process may live on")
                .hint("`uexec ps` tells, `uexec attach` comes back")),
        }
    }
}

/// Whether anybody still takes it.
async fn send(messages: &mpsc::Sender<pb::InteractRequest>, item: Sent) -> bool {
    messages.send(pb::InteractRequest { item: Some(item) }).await.is_ok()
}

async fn sizes(messages: mpsc::Sender<pb::InteractRequest>) {
    let Ok(mut resizes) = Resizes::listen() else { return };
    while let Some(size) = resizes.next().await {
        if !send(&messages, Sent::Resize(size)).await {
            return;
        }
    }
}
