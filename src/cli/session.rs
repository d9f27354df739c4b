//! Which session a command is about.

use clap::Args;

use super::connect::Client;
use super::failure::Failure;
use crate::grpc::pb;

/// The label by which we know the sessions that we made; its value says what for.
pub(super) const LABEL: &str = "uexec";
/// Made for one `exec`, and closed with it.
pub(super) const FOR_EXEC: &str = "exec";
/// Made for processes that outlive their `exec`.
pub(super) const FOR_DETACHED: &str = "detached";

/// Names a session.
#[derive(Clone, Debug, Args)]
pub(super) struct SessionArg {
    /// The session [default: the only live one]
    #[arg(short = 'S', long, env = "UEXEC_SESSION", value_name = "ID", hide_env_values = true)]
    session: Option<String>,
}

impl SessionArg {
    /// The session that was named.
    pub(super) fn named(&self) -> Option<&str> {
        // An empty variable is a variable that somebody cleared.
        self.session.as_deref().filter(|session| !session.is_empty())
    }

    /// The session that was named, or the only one that can be meant.
    pub(super) async fn resolve(&self, client: &mut Client) -> Result<String, Failure> {
        match self.named() {
            Some(session) => Ok(session.to_owned()),
            None => only(all(client).await?),
        }
    }
}

/// The only session; sessions of an `exec` that runs at the moment are meant only if there is nothing else.
fn only(sessions: Vec<pb::Session>) -> Result<String, Failure> {
    let lasting: Vec<&pb::Session> = sessions
        .iter()
        .filter(|session| session.labels.get(LABEL).is_none_or(|made| made != FOR_EXEC))
        .collect();
    match (lasting.as_slice(), sessions.as_slice()) {
        ([session], _) => Ok(session.session_id.clone()),
        ([], [session]) => Ok(session.session_id.clone()),
        (_, []) => Err(Failure::usage("there is no session").hint(
            "`uexec exec --detach -- COMMAND` starts a process in one; `uexec sessions create` makes one",
        )),
        _ => Err(sessions.iter().fold(
            Failure::usage("there are several sessions; say which one with --session ID or $UEXEC_SESSION"),
            |failure, session| failure.hint(describe(session)),
        )),
    }
}

fn describe(session: &pb::Session) -> String {
    let cwd = session.config.as_ref().map_or("", |config| config.cwd.as_str());
    format!("{}  {} live, in {cwd}", session.session_id, session.live_processes)
}

/// All sessions that we may see, oldest first.
pub(super) async fn all(client: &mut Client) -> Result<Vec<pb::Session>, Failure> {
    let mut sessions = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = pb::ListSessionsRequest { page_size: 1_000, page_token };
        let page = client.session.list_sessions(request).await?.into_inner();
        sessions.extend(page.sessions);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(sessions);
        }
    }
}

/// What asks for everything without questions, by name.
pub(super) fn full_access() -> pb::SessionConfig {
    let network = pb::NetworkPolicy { mode: pb::NetworkMode::On.into(), rules: Vec::new() };
    let kind = pb::SandboxKind::FullAccess.into();
    pb::SessionConfig {
        approval_policy: Some(pb::ApprovalPolicy {
            mode: pb::ApprovalMode::Never.into(),
            ..Default::default()
        }),
        sandbox: Some(pb::SandboxProfile { kind, network: Some(network), ..Default::default() }),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str, made: Option<&str>) -> pb::Session {
        let labels = made.map(|made| (LABEL.to_owned(), made.to_owned())).into_iter().collect();
        pb::Session { session_id: id.to_owned(), labels, ..Default::default() }
    }

    #[test]
    fn the_only_session_is_meant_and_a_passing_exec_is_not() {
        assert!(only(vec![]).is_err());
        assert_eq!(only(vec![session("a", None)]).expect("one"), "a");
        assert_eq!(only(vec![session("x", Some(FOR_EXEC))]).expect("one"), "x");
        assert_eq!(
            only(vec![session("x", Some(FOR_EXEC)), session("b", Some(FOR_DETACHED))]).expect("one"),
            "b"
        );
        let several = only(vec![session("a", None), session("b", None)]).expect_err("two").to_text();
        assert!(several.contains("hint: a ") && several.contains("hint: b "), "{several}");
    }
}
