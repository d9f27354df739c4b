//! A session on the real sandbox, somebody who answers its questions, and what its feed tells.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use unified_exec::core::approval::{Permissions, Review, State, Subject, Verdict};
use unified_exec::core::command::{Command, Defaults, EnvPolicy, EnvVar, Program, TerminalSize};
use unified_exec::core::ids::{ProcessId, TurnId};
use unified_exec::core::limits::Limits;
use unified_exec::core::output::Flow;
use unified_exec::core::policy::{
    ApprovalPolicy, Assessment, Files, Granular, Network, NetworkDecision, NetworkRule, Profile, Rights,
    RuleDecision, RuleMatch, Segment,
};
use unified_exec::core::session::{Decide, Exec, FeedKind, Mode, StartError, Write, WriteAnswer};
use unified_exec::core::spawn::ResourceLimits;
use unified_exec::host::board::Change;
use unified_exec::host::clock::Clock;
use unified_exec::host::feed::NextEvent;
use unified_exec::host::ports::{AddRuleError, Assessing, BoxFuture, Reviewer, Rulebook};
use unified_exec::host::reviewers::{Always, People};
use unified_exec::host::stream::{Collected, Item, Refused, StreamOptions};
use unified_exec::host::{CallError, Host, Owner, Ports, SessionHandle, Settings};
use unified_exec::spawn::{LocalSpawner, Options};

/// No row takes longer, however loaded the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a row sets up.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) policy: ApprovalPolicy,
    pub(crate) strict: bool,
    pub(crate) profile: ProfileKind,
    pub(crate) deny_read: bool,
    pub(crate) owner_network: bool,
    /// What a rule says of every command.
    pub(crate) rule: Option<RuleDecision>,
    pub(crate) escalate: bool,
    /// What is answered to every question.
    pub(crate) answer: Verdict,
    pub(crate) early_window: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProfileKind {
    WorkspaceWrite,
    FullAccess,
    External,
}

pub(crate) fn scene(policy: ApprovalPolicy) -> Scene {
    Scene {
        policy,
        strict: false,
        profile: ProfileKind::WorkspaceWrite,
        deny_read: false,
        owner_network: false,
        rule: None,
        escalate: false,
        answer: Verdict::Approve,
        early_window: Duration::from_secs(5),
    }
}

pub(crate) fn granular(sandbox_approval: bool) -> ApprovalPolicy {
    ApprovalPolicy::Granular(Granular { rules: true, sandbox_approval, network: false, stdin: false })
}

/// What the feed told of one command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) spawns: usize,
    /// Questions, by what they were about.
    pub(crate) asked: Vec<&'static str>,
    pub(crate) denied: usize,
    /// Whether the last attempt ran under the profile.
    pub(crate) sandboxed: Option<bool>,
}

#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) host: Host,
    pub(crate) session: SessionHandle,
    scene: Scene,
    workspace: TempDir,
    /// Where nothing in the sandbox may write.
    outside: TempDir,
}

impl Stage {
    pub(crate) fn set(scene: Scene) -> Self {
        let workspace = TempDir::new().unwrap();
        // Not below /tmp, which a sandbox has for itself.
        let outside = TempDir::new_in("/var/tmp").unwrap();
        let clock = Clock::start();
        let launcher = Some(PathBuf::from(env!("CARGO_BIN_EXE_uexec")));
        let spawner = LocalSpawner::start(clock, Options { launcher, ..Options::default() }).unwrap();
        let book = Book { rule: scene.rule, owner_network: scene.owner_network };
        let ports = Ports {
            rulebook: Arc::new(book),
            reviewer: if scene.strict {
                Arc::new(Always(Review::Allow { text: String::new() })) as Arc<dyn Reviewer>
            } else {
                Arc::new(People)
            },
            ..Ports::of(Arc::new(spawner))
        };
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".into());
        let inherited = vec![EnvVar::new("PATH", path)];
        let host = Host::new(ports, clock, inherited.clone(), 1);
        let settings = Settings {
            defaults: Defaults {
                cwd: text(workspace.path()),
                shell: "bash".into(),
                allow_login: false,
                env: EnvPolicy::default(),
                inherited,
            },
            rights: rights(&scene, &outside),
            process_limits: ResourceLimits::default(),
            limits: Limits { early_window: scene.early_window, ..Limits::default() },
            interactive: true,
        };
        let session = host.create(Owner::new("me"), settings).unwrap();
        Self { host, session, scene, workspace, outside }
    }

    /// A file that only an attempt without a sandbox can make.
    pub(crate) fn forbidden(&self) -> PathBuf {
        self.outside.path().join("made")
    }

    pub(crate) fn workspace(&self) -> &Path {
        self.workspace.path()
    }

    /// A command that makes it.
    pub(crate) fn touch(&self) -> String {
        format!("echo trying; touch '{}'", self.forbidden().display())
    }

    /// Starts a command on pipes; whoever is asked gives the scene's answer.
    pub(crate) async fn run(&self, cmd: &str, mode: Mode) -> Result<Collected, StartError> {
        self.start(cmd, None, mode).await
    }

    /// Starts a command on a terminal; whoever is asked gives the scene's answer.
    pub(crate) async fn run_on_terminal(&self, cmd: &str, mode: Mode) -> Result<Collected, StartError> {
        self.start(cmd, Some(TerminalSize::default()), mode).await
    }

    /// Waits for the end of a process, or for what it says within 5 s.
    pub(crate) async fn poll(&self, process: ProcessId) -> Collected {
        self.write(process, "t", "").await
    }

    pub(crate) async fn write(&self, process: ProcessId, turn: &str, input: &str) -> Collected {
        self.try_write(process, turn, input).await.unwrap()
    }

    pub(crate) async fn try_write(
        &self,
        process: ProcessId,
        turn: &str,
        input: &str,
    ) -> Result<Collected, String> {
        let write = Write {
            turn: TurnId::new(turn),
            request: None,
            process,
            input: Bytes::copy_from_slice(input.as_bytes()),
            offset: None,
            eof: false,
            answer: WriteAnswer::Collect { yield_time: None },
        };
        let mut stream = self.session.write(write, StreamOptions::new(Flow::DropWithGap, 1_000)).await;
        loop {
            match stream.next().await.unwrap() {
                Ok(Item::Result(collected)) => return Ok(*collected),
                Ok(_) => {}
                Err(error) => return Err(format!("{error:?} {error}")),
            }
        }
    }

    async fn start(
        &self,
        cmd: &str,
        terminal: Option<TerminalSize>,
        mode: Mode,
    ) -> Result<Collected, StartError> {
        let command = Command {
            program: Program::Shell { cmd: cmd.into(), shell: None, login: None },
            cwd: None,
            env: Vec::new(),
            terminal,
            stdin: false,
            full_terminal: false,
        };
        let permissions = if self.scene.escalate { Permissions::Escalated } else { Permissions::Default };
        let exec = Exec { permissions, ..Exec::new(TurnId::new("t"), command, mode) };
        let calling = self.call(exec);
        tokio::select! {
            result = tokio::time::timeout(PATIENCE, calling) => result.unwrap(),
            () = self.answer_questions() => panic!("the board goes on"),
        }
    }

    async fn call(&self, exec: Exec) -> Result<Collected, StartError> {
        let mut stream = self.session.exec(exec, StreamOptions::new(Flow::DropWithGap, 1_000)).await;
        loop {
            match stream.next().await.unwrap() {
                Ok(Item::Result(collected)) => return Ok(*collected),
                Ok(_) => {}
                Err(CallError::Refused(Refused::Start(error))) => return Err(error),
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    /// Strict scenes have an automatic reviewer, which is quicker.
    async fn answer_questions(&self) {
        let (open, mut changes) = self.host.board().watch();
        for posted in open {
            self.answer(&posted.approval.question.id).await;
        }
        while let Ok(change) = changes.recv().await {
            if let Change::Posted(posted) = change
                && posted.approval.state == State::Open
                && !self.scene.strict
            {
                self.answer(&posted.approval.question.id).await;
            }
        }
    }

    async fn answer(&self, approval: &unified_exec::core::ids::ApprovalId) {
        let decide = Decide {
            approval: approval.clone(),
            verdict: self.scene.answer,
            text: "no thanks".into(),
            rule: Vec::new(),
            by: "a person".into(),
        };
        self.session.decide(decide).await.unwrap();
    }

    /// Everything the feed has told so far.
    pub(crate) async fn told(&self) -> Told {
        let (_, last) = self.session.events();
        let mut feed = self.session.watch(Some(0));
        let mut told = Told::default();
        loop {
            let NextEvent::Event(event) = feed.next().await else { panic!("nothing is lost") };
            match &event.kind {
                FeedKind::ApprovalRequested(asked) => told.asked.push(match asked.question.subject {
                    Subject::Command => "command",
                    Subject::Retry { .. } => "retry",
                    Subject::Input { .. } => "input",
                    Subject::Connection { .. } => "connection",
                }),
                FeedKind::AttemptStarted { attempt, .. } => {
                    told.spawns += 1;
                    told.sandboxed = Some(attempt.confinement.profile().is_some());
                }
                FeedKind::AttemptDenied { .. } => told.denied += 1,
                _ => {}
            }
            if event.sequence >= last {
                return told;
            }
        }
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn rights(scene: &Scene, outside: &TempDir) -> Rights {
    let files = match scene.profile {
        ProfileKind::WorkspaceWrite => {
            Files::WorkspaceWrite { writable_roots: Vec::new(), protected: vec![".git".into()] }
        }
        ProfileKind::FullAccess => Files::FullAccess,
        ProfileKind::External => Files::External,
    };
    let network = if scene.profile == ProfileKind::WorkspaceWrite { Network::Off } else { Network::On };
    let deny_read = if scene.deny_read { vec![text(&outside.path().join("secret"))] } else { Vec::new() };
    Rights {
        policy: scene.policy.clone(),
        strict_review: scene.strict,
        profile: Profile { files, network, deny_read },
    }
}

/// Says the same of every command.
#[derive(Debug)]
struct Book {
    rule: Option<RuleDecision>,
    owner_network: bool,
}

impl Rulebook for Book {
    fn assess(&self, argv: Vec<String>, _: String) -> Assessing {
        let rule = self.rule.map(|decision| RuleMatch {
            decision,
            rule: "the rule of the test".into(),
            justification: None,
        });
        let segment = Segment { words: argv.clone(), rule, danger: None };
        Assessing::Now(Assessment { segments: vec![segment], canonical: argv, fingerprint: "test".into() })
    }

    fn owner_network(&self) -> Option<Arc<[NetworkRule]>> {
        let deny =
            NetworkRule { host: "example.org".into(), ports: Vec::new(), decision: NetworkDecision::Deny };
        self.owner_network.then(|| Arc::from([deny]))
    }

    fn allow(&self, _: Vec<String>) -> BoxFuture<Result<(), AddRuleError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
