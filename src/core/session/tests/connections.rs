//! Connections of a process whose network is proxied: let through, refused, or held until somebody has answered.

use super::asking::{granular, sandboxed, strict};
use super::*;
use crate::core::approval::{Subject, Verdict};
use crate::core::ids::{ConnectionId, ProcessId};
use crate::core::limits::CONNECTIONS_HELD_MAX;
use crate::core::policy::{ApprovalPolicy, Granular, Network, NetworkDecision, NetworkRule, Profile, Rights};
use crate::core::session::*;
use crate::core::signal::Signal;

fn rule(host: &str, decision: NetworkDecision) -> NetworkRule {
    NetworkRule { host: host.into(), ports: Vec::new(), decision }
}

fn proxied(policy: ApprovalPolicy) -> Rights {
    let rights = sandboxed(policy);
    let rules =
        vec![rule("good.example", NetworkDecision::Allow), rule("bad.example", NetworkDecision::Deny)];
    Rights { profile: Profile { network: Network::Proxied { rules }, ..rights.profile.clone() }, ..rights }
}

fn live(policy: ApprovalPolicy) -> (Bench, ProcessId) {
    let mut bench = Bench::of(proxied(policy));
    let process = bench.background(shell());
    (bench, process)
}

fn not_approved(host: &str) -> Option<Result<(), ConnectionRefused>> {
    Some(Err(ConnectionRefused::NotApproved { host: host.into(), port: 443 }))
}

#[test]
fn rules_let_through_and_refuse_without_a_question() {
    let (mut bench, process) = live(ApprovalPolicy::OnRequest);
    bench.connects(process, 1, "good.example");
    bench.connects(process, 2, "bad.example");
    bench.connects(process, 3, "no host at all");
    assert_eq!(bench.connected(1), Some(Ok(())));
    let denied = ConnectionRefused::Denied { host: "bad.example".into(), port: 443 };
    assert_eq!(bench.connected(2), Some(Err(denied)));
    assert!(matches!(bench.connected(3), Some(Err(ConnectionRefused::Denied { .. }))));
    assert!(bench.questions().is_empty());
}

#[test]
fn a_connection_that_no_rule_matches_is_held_until_it_is_answered() {
    let (mut bench, process) = live(ApprovalPolicy::OnRequest);
    bench.connects(process, 1, "new.example");
    assert_eq!((bench.connected(1), bench.open()), (None, 1));
    let question = bench.question();
    assert_eq!(question.subject, Subject::Connection { host: "new.example".into(), port: 443 });
    bench.approves();
    assert_eq!(bench.connected(1), Some(Ok(())));
    bench.connects(process, 2, "new.example");
    bench.declines();
    assert_eq!(bench.connected(2), not_approved("new.example"));
}

#[test]
fn connections_to_one_place_share_a_question_and_other_ports_do_not() {
    let (mut bench, process) = live(ApprovalPolicy::OnRequest);
    bench.connects(process, 1, "new.example");
    bench.connects(process, 2, "New.Example");
    let (connection, host) = (ConnectionId(3), "new.example".to_owned());
    bench.event(Event::Connecting { process, connection, host, port: 80 });
    assert_eq!(bench.open(), 2);
    let first = bench.questions()[0].id.clone();
    bench.decide(&first, Verdict::Approve);
    assert_eq!(
        (bench.connected(1), bench.connected(2), bench.connected(3)),
        (Some(Ok(())), Some(Ok(())), None)
    );
}

#[test]
fn an_approval_for_the_session_spares_the_next_question_of_any_process() {
    let (mut bench, process) = live(ApprovalPolicy::OnRequest);
    bench.connects(process, 1, "New.example");
    bench.answers_with(Verdict::ApproveForSession);
    let other = bench.background(shell());
    bench.connects(other, 2, "new.EXAMPLE");
    assert_eq!((bench.connected(2), bench.questions().len()), (Some(Ok(())), 1));
    bench.connects(other, 3, "bad.example");
    assert!(matches!(bench.connected(3), Some(Err(_))));
}

#[test]
fn strict_review_sees_a_granted_connection() {
    let (mut bench, process) = live(ApprovalPolicy::OnRequest);
    bench.connects(process, 1, "new.example");
    bench.answers_with(Verdict::ApproveForSession);
    bench.rights(strict(proxied(ApprovalPolicy::OnRequest)));
    bench.connects(process, 2, "new.example");
    assert_eq!((bench.connected(2), bench.open()), (None, 1));
}

#[test]
fn where_nobody_may_be_asked_a_connection_is_refused_at_once() {
    let silent = Granular { network: false, ..granular() };
    for policy in [ApprovalPolicy::Never, ApprovalPolicy::Granular(silent)] {
        let (mut bench, process) = live(policy);
        bench.connects(process, 1, "new.example");
        assert!(matches!(bench.connected(1), Some(Err(ConnectionRefused::NobodyAsked { .. }))));
        assert!(bench.questions().is_empty());
    }
    let only = Granular { network: true, ..Granular::default() };
    let (mut bench, process) = live(ApprovalPolicy::Granular(only));
    bench.connects(process, 1, "new.example");
    assert_eq!(bench.open(), 1);
}

#[test]
fn the_last_client_that_goes_withdraws_the_question() {
    let (mut bench, process) = live(ApprovalPolicy::OnRequest);
    bench.connects(process, 1, "new.example");
    bench.connects(process, 2, "new.example");
    bench.event(Event::ConnectionGone { connection: ConnectionId(1) });
    assert_eq!(bench.open(), 1);
    bench.event(Event::ConnectionGone { connection: ConnectionId(2) });
    assert_eq!(bench.open(), 0);
    assert_eq!((bench.connected(1), bench.connected(2)), (None, None), "there is nobody to tell");
}

#[test]
fn an_interrupt_of_the_turn_refuses_what_is_held_and_ends_nobody() {
    let (mut bench, process) = live(ApprovalPolicy::OnRequest);
    bench.connects(process, 1, "new.example");
    bench.interrupt("u");
    assert_eq!(bench.open(), 1);
    let report = bench.interrupt("t");
    assert_eq!((report.withdrawn, report.alive), (1, vec![process]));
    assert_eq!(bench.connected(1), not_approved("new.example"));
    assert!(bench.blows(process).is_empty());
}

#[test]
fn the_end_of_a_process_refuses_what_is_held_even_before_its_end_is_judged() {
    let (mut bench, process) = live(ApprovalPolicy::OnRequest);
    bench.connects(process, 1, "new.example");
    bench.dies_of(process, Signal::SYS);
    assert_eq!((bench.open(), bench.connected(1)), (0, not_approved("new.example")));
}

#[test]
fn what_a_process_left_behind_connects_as_it_did_until_it_is_gone_too() {
    let (mut bench, process) = live(ApprovalPolicy::OnRequest);
    bench.exited(process, 0);
    bench.closed(process, 0);
    bench.connects(process, 1, "good.example");
    bench.connects(process, 2, "new.example");
    assert_eq!((bench.connected(1), bench.connected(2), bench.open()), (Some(Ok(())), None, 1));
    bench.tree_gone(process);
    assert_eq!((bench.open(), bench.connected(2)), (0, not_approved("new.example")));
    bench.connects(process, 3, "good.example");
    assert_eq!(bench.connected(3), Some(Err(ConnectionRefused::Gone)));
}

#[test]
fn a_change_of_policy_refuses_what_is_held() {
    let (mut bench, process) = live(ApprovalPolicy::OnRequest);
    bench.connects(process, 1, "new.example");
    bench.rights(proxied(ApprovalPolicy::Never));
    assert_eq!((bench.open(), bench.connected(1)), (0, not_approved("new.example")));
}

#[test]
fn an_approved_connection_changes_nothing_else() {
    let (mut bench, process) = live(ApprovalPolicy::OnRequest);
    let before = bench.view(process).unwrap().attempts;
    bench.connects(process, 1, "new.example");
    bench.answers_with(Verdict::ApproveForSession);
    assert_eq!(bench.view(process).unwrap().attempts, before);
    assert_eq!(bench.session.view().rights, proxied(ApprovalPolicy::OnRequest));
    let next = bench.background(shell());
    assert_eq!(bench.sandbox(next), Some(proxied(ApprovalPolicy::OnRequest).profile));
    assert_eq!(bench.spawns(), 2, "there is no second attempt for the network");
}

#[test]
fn the_owners_rules_are_those_of_now_and_win() {
    let (mut bench, process) = live(ApprovalPolicy::OnRequest);
    let rules = Some(vec![rule("good.example", NetworkDecision::Deny)]);
    bench.event(Event::OwnerNetwork { rules });
    bench.connects(process, 1, "good.example");
    assert!(matches!(bench.connected(1), Some(Err(ConnectionRefused::Denied { .. }))));
}

#[test]
fn a_process_without_a_proxied_network_or_without_life_connects_nowhere() {
    let mut bench = Bench::of(sandboxed(ApprovalPolicy::OnRequest));
    let process = bench.background(shell());
    bench.connects(process, 1, "good.example");
    assert_eq!(bench.connected(1), Some(Err(ConnectionRefused::Gone)));
}

#[test]
fn only_so_many_connections_of_a_process_are_held() {
    let (mut bench, process) = live(ApprovalPolicy::OnRequest);
    for connection in 0..CONNECTIONS_HELD_MAX {
        bench.connects(process, connection as u64, "new.example");
    }
    bench.connects(process, 9_999, "new.example");
    let limit = CONNECTIONS_HELD_MAX;
    assert_eq!(bench.connected(9_999), Some(Err(ConnectionRefused::TooMany { limit })));
}
