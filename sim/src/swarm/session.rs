//! Random sessions: rights, bounds, rules, and who answers.

use std::collections::BTreeMap;

use super::menu::{Fault, Menu};
use super::random::Random;
use crate::rulebook::Decision;
use crate::scenario::service::{
    Change, Confidence, Connection, Granular, Hosts, Network, Policy, Reviewer, Sandbox, Says, Service,
};

/// Half of all sessions ask before everything, or let nothing be asked; the others are in between.
pub(crate) fn policy(random: &mut Random) -> Policy {
    match random.below(8) {
        0 => Policy::Never,
        1 => Policy::OnRequest,
        2..=4 => Policy::UnlessTrusted,
        _ => Policy::Granular(Granular {
            rules: random.chance(50),
            sandbox_approval: random.chance(80),
            network: random.chance(50),
            stdin: random.chance(70),
        }),
    }
}

fn sandbox(random: &mut Random) -> Sandbox {
    random.one_of([
        Sandbox::ReadOnly,
        Sandbox::ReadOnly,
        Sandbox::ReadOnly,
        Sandbox::WorkspaceWrite,
        Sandbox::WorkspaceWrite,
        Sandbox::WorkspaceWrite,
        Sandbox::FullAccess,
        Sandbox::External,
    ])
}

pub(crate) fn hosts(random: &mut Random) -> Hosts {
    let mut hosts = Hosts::new();
    for host in ["example.org", "*"] {
        if random.chance(60) {
            hosts.insert(host.into(), random.one_of([Connection::Allow, Connection::Ask, Connection::Deny]));
        }
    }
    hosts
}

fn deny_read(random: &mut Random) -> Option<Vec<String>> {
    random.chance(12).then(|| vec!["/w/secret".into()])
}

pub(crate) fn service(menu: &Menu, random: &mut Random) -> Service {
    let mut service = Service::default();
    if random.chance(80) {
        service.policy = Some(policy(random));
        service.sandbox = Some(sandbox(random));
    }
    if menu.rate(Fault::Connect) > 0 {
        service.network = Some(Network::Proxied(hosts(random)));
    } else if random.chance(20) {
        service.network = Some(if random.chance(50) { Network::Off } else { Network::On });
    }
    service.deny_read = deny_read(random);
    if random.chance(10) {
        service.owner_network = Some(hosts(random));
    }
    if random.chance(10) {
        service.min_confidence =
            Some(random.one_of([Confidence::Likely, Confidence::Checked, Confidence::Certain]));
    }
    if random.chance(20) {
        service.early_window = Some(random.one_of([50, 5_000]));
    }
    if random.chance(25) {
        service.approval_expiry = Some(random.one_of([0, 1, 1_000, 5_000]));
    }
    if menu.rate(Fault::Prune) > 0 {
        service.processes_max = usize::try_from(random.one_of([1, 2, 9, 9, 10])).ok();
        service.reject_when_full = Some(random.chance(25));
    }
    service
}

/// Strict review is only for sessions that have an automatic reviewer.
pub(crate) fn reviewer(service: &mut Service, random: &mut Random) -> Option<Reviewer> {
    if !random.chance(25) {
        return None;
    }
    service.strict_review = Some(random.chance(50));
    let automatic = random.one_of([Says::Allow, Says::Allow, Says::Deny, Says::AskPerson, Says::Failed]);
    Some(Reviewer { automatic, after: random.one_of([0, 1, 150, 1_000]) })
}

pub(crate) fn rules<'a>(
    names: impl Iterator<Item = &'a String>,
    random: &mut Random,
) -> BTreeMap<String, Decision> {
    let mut rules = BTreeMap::new();
    for name in names {
        if random.chance(25) {
            let decisions = [Decision::Allow, Decision::Allow, Decision::Prompt, Decision::Forbidden];
            let first = name.split(" && ").next().unwrap_or(name);
            rules.insert(first.to_owned(), random.one_of(decisions));
        }
    }
    rules
}

pub(crate) fn change(strict: bool, random: &mut Random) -> Change {
    let mut change = Change::default();
    match random.below(6) {
        0 | 1 => change.policy = Some(policy(random)),
        2 => change.sandbox = Some(sandbox(random)),
        3 => change.deny_read = Some(deny_read(random).unwrap_or_default()),
        4 if strict => change.strict_review = Some(random.chance(50)),
        _ => change.network = Some(if random.chance(50) { Network::Off } else { Network::On }),
    }
    change
}
