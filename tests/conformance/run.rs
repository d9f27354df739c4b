//! What every case needs: starting a plan, and a small pump that reads a child as the host will.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use tokio::sync::watch;
use unified_exec::core::command::{EnvVar, PROCESS_VARIABLE, SESSION_VARIABLE, TerminalSize};
use unified_exec::core::output::Stream;
use unified_exec::core::spawn::{ResourceLimits, SpawnPlan, Stdio};
use unified_exec::host::ports::{Control, Exited, Output, Spawned, Stdin};

/// Longer than anything takes on a loaded machine; only a failure waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What a command that is tested here is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Pipes,
    Terminal,
}

impl Kind {
    pub(crate) fn stdio(self) -> Stdio {
        match self {
            Self::Pipes => Stdio::Pipes { stdin: true },
            Self::Terminal => Stdio::Terminal(TerminalSize::default()),
        }
    }
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A plan for `argv` with marks of its own.
pub(crate) fn plan(argv: &[&str], stdio: Stdio) -> SpawnPlan {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    SpawnPlan {
        argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
        cwd: "/".to_owned(),
        env: std::sync::Arc::new(vec![
            EnvVar::new("PATH", "/usr/local/bin:/usr/bin:/bin"),
            EnvVar::new(SESSION_VARIABLE, format!("conformance-{}", std::process::id())),
            EnvVar::new(PROCESS_VARIABLE, number.to_string()),
        ]),
        stdio,
        sandbox: None,
        limits: ResourceLimits::default(),
    }
}

/// What has been seen of a child so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) output: Vec<(Stream, Vec<u8>)>,
    pub(crate) exited: Option<Exited>,
    pub(crate) closed: bool,
}

impl Seen {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.output.iter().flat_map(|(_, bytes)| bytes.clone()).collect()
    }

    pub(crate) fn of(&self, stream: Stream) -> Vec<u8> {
        self.output.iter().filter(|(of, _)| *of == stream).flat_map(|(_, bytes)| bytes.clone()).collect()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}

/// A child, its control and its stdin, and a task that reads it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) pid: Option<u32>,
    pub(crate) control: Option<Arc<dyn Control>>,
    pub(crate) stdin: Option<Box<dyn Stdin>>,
    seen: watch::Receiver<Seen>,
    /// Until this is true nothing is read.
    reading: watch::Sender<bool>,
    pump: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

impl Running {
    pub(crate) fn new(spawned: Spawned) -> Self {
        Self::with_reading(spawned, true)
    }

    /// Reads only once [`Running::start_reading`] is called.
    pub(crate) fn unread(spawned: Spawned) -> Self {
        Self::with_reading(spawned, false)
    }

    fn with_reading(spawned: Spawned, reading: bool) -> Self {
        let Spawned { pid, control, stdin, output, exit, .. } = spawned;
        let (tell, seen) = watch::channel(Seen::default());
        let (reading, allowed) = watch::channel(reading);
        let pump = tokio::spawn(pump(output, exit, tell, allowed));
        Self { pid, control: Some(control), stdin, seen, reading, pump }
    }

    pub(crate) fn control(&self) -> &Arc<dyn Control> {
        self.control.as_ref().expect("the control was dropped")
    }

    pub(crate) fn start_reading(&self) {
        self.reading.send_replace(true);
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    async fn until(&self, what: &str, holds: impl FnMut(&Seen) -> bool) -> Seen {
        let mut seen = self.seen.clone();
        let found = tokio::time::timeout(PATIENCE, seen.wait_for(holds)).await;
        match found {
            Ok(Ok(seen)) => seen.clone(),
            other => panic!("{what} has not happened ({}); seen {:?}", other.is_err(), self.seen()),
        }
    }

    /// Waits for the exit, which must come exactly once.
    pub(crate) async fn exited(&self) -> Exited {
        self.until("the exit", |seen| seen.exited.is_some()).await.exited.unwrap()
    }

    /// Waits for the exit and the end of all output.
    pub(crate) async fn ended(&self) -> Seen {
        self.until("the end", |seen| seen.exited.is_some() && seen.closed).await
    }

    /// Waits until the output holds `text`.
    pub(crate) async fn says(&self, text: &str) -> Seen {
        self.until(text, |seen| seen.text().contains(text)).await
    }

    /// Waits until the output is `length` bytes long.
    pub(crate) async fn says_bytes(&self, length: usize) -> Seen {
        self.until("so much output", |seen| {
            seen.output.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() >= length
        })
        .await
    }

    /// Writes all of `data`.
    pub(crate) async fn write(&mut self, data: &[u8]) -> std::io::Result<()> {
        let stdin = self.stdin.as_mut().expect("no stdin");
        let mut rest = data;
        while !rest.is_empty() {
            let written = std::future::poll_fn(|cx| stdin.poll_write(cx, rest));
            let length = tokio::time::timeout(PATIENCE, written).await.expect("nothing is taken")?;
            assert!(length >= 1 && length <= rest.len());
            rest = &rest[length..];
        }
        Ok(())
    }
}

async fn pump(
    mut output: Box<dyn Output>,
    mut exit: Box<dyn unified_exec::host::ports::Exit>,
    tell: watch::Sender<Seen>,
    mut allowed: watch::Receiver<bool>,
) {
    let mut buffer = BytesMut::new();
    let (mut exited, mut closed) = (false, false);
    let mut reading = *allowed.borrow();
    while !exited || !closed {
        buffer.reserve(64 * 1024);
        tokio::select! {
            end = &mut exit, if !exited => {
                exited = true;
                output.leader_reaped();
                tell.send_modify(|seen| seen.exited = Some(end));
            }
            read = std::future::poll_fn(|cx| output.poll_read(cx, &mut buffer)), if reading && !closed => {
                closed = read.is_none();
                let bytes = buffer.split().to_vec();
                assert_eq!(read.is_none(), bytes.is_empty(), "bytes and an end are different news");
                tell.send_modify(|seen| match (read, seen.output.last_mut()) {
                    (None, _) => seen.closed = true,
                    (Some(stream), Some((of, last))) if *of == stream => last.extend(bytes),
                    (Some(stream), _) => seen.output.push((stream, bytes)),
                });
            }
            changed = allowed.changed(), if !reading => {
                if changed.is_err() {
                    return;
                }
                reading = *allowed.borrow();
            }
        }
    }
    // Whoever asks again hears the same: no byte after the end.
    assert!(std::future::poll_fn(|cx| output.poll_read(cx, &mut buffer)).await.is_none());
}

/// Runs `future` and fails if it takes too long.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} takes too long"),
    }
}

/// Waits until nothing has the number `pid`, not even a zombie. A process is out of its cgroup a moment before that.
pub(crate) async fn vanishes(pid: u32) {
    soon("the end of a process", async {
        while std::path::Path::new(&format!("/proc/{pid}")).exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// One case at a time where a case counts what the whole process has.
pub(crate) static ALONE: tokio::sync::RwLock<()> = tokio::sync::RwLock::const_new(());
