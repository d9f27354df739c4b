//! `uexec approvals`: what is asked, and the answers to it. Speaks as a reviewer: through the reviewer's socket, or with
//! the reviewer's token.

mod show;

use clap::Subcommand;

use self::show::{kind, line, state, subject, whole};
use crate::cli::args::Global;
use crate::cli::connect::Client;
use crate::cli::digest::Digest;
use crate::cli::failure::Failure;
use crate::cli::output::{self, Sink};
use crate::cli::table::Table;
use crate::cli::{exit, json, words};
use crate::grpc::auth::Role;
use crate::grpc::pb;
use crate::grpc::pb::watch_approvals_response::Item;

/// See what is asked, and answer it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Watch questions: those that are open, then every new one and every change
    Watch {
        /// Only those of this session
        #[arg(short = 'S', long, value_name = "ID")]
        session: Option<String>,
    },
    /// List open questions
    List {
        /// Also those that are closed
        #[arg(short = 'a', long)]
        all: bool,
        /// Only those of this session
        #[arg(short = 'S', long, value_name = "ID")]
        session: Option<String>,
    },
    /// Show everything about a question
    Show {
        /// The question, or the beginning of its id
        id: String,
    },
    /// Say yes
    Approve {
        /// The question, or the beginning of its id
        id: String,
        /// The same needs no question for the rest of the session
        #[arg(long, conflicts_with = "add_rule")]
        for_session: bool,
        /// Add a rule that allows commands with these first words [default: the words that the agent proposes]
        #[arg(long, value_name = "WORD", num_args = 0..)]
        add_rule: Option<Vec<String>>,
        /// Words to the agent
        #[arg(long, default_value = "")]
        text: String,
        /// Only if the question is the one with this digest, which `show` tells
        #[arg(long, value_name = "HEX")]
        digest: Option<Digest>,
    },
    /// Say no
    Decline {
        /// The question, or the beginning of its id
        id: String,
        /// Words to the agent
        #[arg(long, default_value = "")]
        text: String,
        /// End everything that its turn waits for, too
        #[arg(long)]
        abort_turn: bool,
        /// Only if the question is the one with this digest, which `show` tells
        #[arg(long, value_name = "HEX")]
        digest: Option<Digest>,
    },
    /// List the approvals that a session keeps
    Grants {
        /// The session
        session: String,
    },
    /// Take back an approval that a session keeps
    Revoke {
        /// The session
        session: String,
        /// The grant
        grant: String,
    },
}

/// Does it.
pub(crate) async fn run(global: &Global, args: Args) -> Result<u8, Failure> {
    let mut client = global.connect_as(Role::Reviewer).await?;
    match args.what {
        What::Watch { session } => watch(global, &mut client, session).await,
        What::List { all, session } => list(global, &mut client, all, session).await,
        What::Show { id } => {
            let approval = find(&mut client, &id).await?;
            if global.json {
                json::print(&json::value("Approval", &approval)?)?;
            } else {
                output::print(&whole(&approval))?;
                output::print(&format!("digest      {}\n", Digest::from(approval.digest.clone())))?;
            }
            Ok(exit::OK)
        }
        What::Approve { id, for_session, add_rule, text, digest } => {
            let verdict = match (&add_rule, for_session) {
                (Some(_), _) => pb::Verdict::ApproveAndAddRule,
                (None, true) => pb::Verdict::ApproveForSession,
                (None, false) => pb::Verdict::Approve,
            };
            decide(global, &mut client, &id, verdict, text, add_rule.unwrap_or_default(), digest).await
        }
        What::Decline { id, text, abort_turn, digest } => {
            let verdict = if abort_turn { pb::Verdict::AbortTurn } else { pb::Verdict::Decline };
            decide(global, &mut client, &id, verdict, text, Vec::new(), digest).await
        }
        What::Grants { session } => grants(global, &mut client, session).await,
        What::Revoke { session, grant } => {
            let request = pb::RevokeGrantRequest { session_id: session, grant_id: grant };
            let answer = client.approval.revoke_grant(request).await?.into_inner();
            if global.json {
                json::print(&json::value("RevokeGrantResponse", &answer)?)?;
            }
            Ok(exit::OK)
        }
    }
}

async fn watch(global: &Global, client: &mut Client, session: Option<String>) -> Result<u8, Failure> {
    let request =
        pb::WatchApprovalsRequest { session_id: session.unwrap_or_default(), keepalive_interval_ms: 0 };
    let mut items = client.approval.watch_approvals(request).await?.into_inner();
    let mut sink = Sink::new(global.json);
    while let Some(answer) = items.message().await? {
        match answer.item {
            Some(Item::Approval(approval)) if sink.is_json() => {
                sink.item("approval", json::value("Approval", &approval)?).await?;
            }
            Some(Item::Approval(approval)) => output::print(&line(&approval))?,
            Some(Item::SnapshotDone(done)) => {
                sink.item("snapshot_done", json::value("SnapshotDone", &done)?).await?;
                output::note(&format!("{} open; what follows is new", done.count));
            }
            Some(Item::Draining(_)) => output::note("the server shuts down"),
            Some(Item::Keepalive(_)) | None => {}
        }
    }
    Ok(exit::OK)
}

async fn list(
    global: &Global,
    client: &mut Client,
    all: bool,
    session: Option<String>,
) -> Result<u8, Failure> {
    let approvals = every(client, all, session.unwrap_or_default()).await?;
    if global.json {
        let list: Vec<_> =
            approvals.iter().map(|one| json::value("Approval", one)).collect::<Result<_, _>>()?;
        json::print(&serde_json::json!({ "approvals": list }))?;
        return Ok(exit::OK);
    }
    let mut table = Table::new(&["ID", "STATE", "KIND", "AGE", "LEFT", "SESSION", "WHY", "COMMAND"]);
    for approval in &approvals {
        table.row([
            approval.approval_id.clone(),
            state(approval),
            kind(approval),
            approval.create_time.as_ref().map_or_else(|| "-".to_owned(), words::age),
            left(approval),
            approval.session_id.clone(),
            approval.reason.clone(),
            subject(approval),
        ]);
    }
    table.print()?;
    Ok(exit::OK)
}

/// How long it still waits for an answer.
fn left(approval: &pb::Approval) -> String {
    let open = approval.state() == pb::ApprovalState::Open;
    approval.expire_time.as_ref().filter(|_| open).map_or_else(|| "-".to_owned(), words::left)
}

async fn every(client: &mut Client, all: bool, session: String) -> Result<Vec<pb::Approval>, Failure> {
    let mut approvals = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = pb::ListApprovalsRequest {
            session_id: session.clone(),
            include_closed: all,
            page_size: 1_000,
            page_token,
        };
        let page = client.approval.list_approvals(request).await?.into_inner();
        approvals.extend(page.approvals);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(approvals);
        }
    }
}

/// The question of this id, or the one whose id begins so.
async fn find(client: &mut Client, id: &str) -> Result<pb::Approval, Failure> {
    meant(every(client, true, String::new()).await?, id)
}

/// An id that is given whole means itself; the beginning of several means the only one of them that is open.
fn meant(known: Vec<pb::Approval>, id: &str) -> Result<pb::Approval, Failure> {
    if id.is_empty() {
        return Err(Failure::usage("an empty id names no question").hint(LIST));
    }
    let begins = |approval: &pb::Approval| approval.approval_id.starts_with(id);
    let (mut whole, mut matching): (Vec<_>, Vec<_>) =
        known.into_iter().filter(begins).partition(|approval| approval.approval_id == id);
    if let Some(approval) = whole.pop() {
        return Ok(approval);
    }
    if matching.len() > 1 && matching.iter().any(is_open) {
        matching.retain(is_open);
    }
    match (matching.pop(), matching.is_empty()) {
        (Some(approval), true) => Ok(approval),
        (Some(last), false) => Err(matching.iter().chain([&last]).take(AMBIGUOUS_SHOWN).fold(
            Failure::usage(format!("{id:?} is the beginning of several questions; give more of it")),
            |failure, approval| failure.hint(line(approval).trim_end()),
        )),
        (None, _) => Err(Failure::new(format!("there is no question {id:?}")).hint(LIST)),
    }
}

const LIST: &str = "`uexec approvals list --all` shows those that are known";

/// Who gave too little of an id needs a few to choose from, not all that ever were.
const AMBIGUOUS_SHOWN: usize = 5;

fn is_open(approval: &pb::Approval) -> bool {
    approval.state() == pb::ApprovalState::Open
}

/// Answers exactly what is shown: its digest goes with the answer.
async fn decide(
    global: &Global,
    client: &mut Client,
    id: &str,
    verdict: pb::Verdict,
    text: String,
    prefix_rule: Vec<String>,
    digest: Option<Digest>,
) -> Result<u8, Failure> {
    let approval = find(client, id).await?;
    if is_open(&approval) {
        output::block("the answer is to", &whole(&approval));
    }
    let request = pb::DecideApprovalRequest {
        approval_id: approval.approval_id,
        session_id: approval.session_id,
        digest: digest.map_or(approval.digest, Digest::into_bytes),
        verdict: verdict.into(),
        text,
        prefix_rule,
    };
    let answer = client.approval.decide_approval(request).await?.into_inner();
    if global.json {
        json::print(&json::value("DecideApprovalResponse", &answer)?)?;
    } else if let Some(approval) = &answer.approval {
        output::print(&line(approval))?;
    }
    Ok(exit::OK)
}

async fn grants(global: &Global, client: &mut Client, session: String) -> Result<u8, Failure> {
    let mut grants = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = pb::ListGrantsRequest { session_id: session.clone(), page_size: 1_000, page_token };
        let page = client.approval.list_grants(request).await?.into_inner();
        grants.extend(page.grants);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    if global.json {
        let list: Vec<_> = grants.iter().map(|one| json::value("Grant", one)).collect::<Result<_, _>>()?;
        json::print(&serde_json::json!({ "grants": list }))?;
        return Ok(exit::OK);
    }
    let mut table = Table::new(&["ID", "AGE", "USES", "BY", "IN", "WHAT"]);
    for grant in &grants {
        let what = if grant.host.is_empty() {
            words::exact(&grant.command)
        } else {
            format!("{}:{}", grant.host, grant.port)
        };
        table.row([
            grant.grant_id.clone(),
            grant.create_time.as_ref().map_or_else(|| "-".to_owned(), words::age),
            grant.uses.to_string(),
            grant.decided_by.clone(),
            grant.cwd.clone(),
            what,
        ]);
    }
    table.print()?;
    Ok(exit::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(id: &str, state: pb::ApprovalState) -> pb::Approval {
        pb::Approval { approval_id: id.to_owned(), state: state.into(), ..Default::default() }
    }

    #[test]
    fn the_beginning_of_an_id_means_one_question_or_none() {
        use pb::ApprovalState::{Approved, Open};
        let known = || vec![question("apr_1", Open), question("apr_12", Open), question("apr_2", Approved)];
        let means = |id: &str| meant(known(), id).map(|approval| approval.approval_id);
        assert_eq!(means("apr_1").expect("whole"), "apr_1");
        assert_eq!(means("apr_12").expect("whole"), "apr_12");
        assert_eq!(means("apr_2").expect("closed, and known"), "apr_2");
        let several = means("apr_").expect_err("two are open").to_text();
        assert!(several.contains("hint: apr_1 ") && !several.contains("apr_2"), "{several}");
        assert!(means("").is_err() && means("x").is_err());
        let one = vec![question("apr_1", Approved), question("apr_2", Open)];
        assert_eq!(meant(one, "apr_").expect("the open one").approval_id, "apr_2");
    }
}
