//! The whole product of policy, sandbox, rules, permissions and answers, held against tables that are written down here
//! a second time, from the specification and not from the code.

use super::*;
use crate::core::approval::Permissions;
use crate::core::policy::{
    Additional, ApprovalPolicy, Assessment, Confinement, Files, Granular, Network, NetworkDecision,
    NetworkRule, Profile, Rights, RuleDecision, RuleMatch, Segment,
};

pub(in crate::core) const FLAGS: [bool; 2] = [false, true];

fn policies() -> Vec<ApprovalPolicy> {
    let granular = (0..16).map(|bits| {
        ApprovalPolicy::Granular(Granular {
            rules: bits & 1 != 0,
            sandbox_approval: bits & 2 != 0,
            network: bits & 4 != 0,
            stdin: bits & 8 != 0,
        })
    });
    let plain = [ApprovalPolicy::Never, ApprovalPolicy::OnRequest, ApprovalPolicy::UnlessTrusted];
    plain.into_iter().chain(granular).collect()
}

pub(in crate::core) fn profiles() -> Vec<Profile> {
    let workspace =
        Files::WorkspaceWrite { writable_roots: vec!["/w".into()], protected: vec![".git".into()] };
    let kinds = [
        (Files::ReadOnly, Network::Off),
        (workspace, Network::Off),
        (Files::FullAccess, Network::On),
        (Files::FullAccess, Network::Off),
        (Files::External, Network::On),
    ];
    let with = |(files, network): (Files, Network)| {
        [Vec::new(), vec!["/secret".to_owned()]].map(|deny_read| Profile {
            files: files.clone(),
            network: network.clone(),
            deny_read,
        })
    };
    kinds.into_iter().flat_map(with).collect()
}

pub(in crate::core) fn permissions() -> [Permissions; 3] {
    let more = Additional { write: vec!["/more".into()], ..Additional::default() };
    [Permissions::Default, Permissions::Escalated, Permissions::Additional(more)]
}

/// A rule, and whether the command is dangerous.
pub(in crate::core) type Facts = (Option<RuleDecision>, bool);

fn facts() -> Vec<Facts> {
    let rules = [None, Some(RuleDecision::Allow), Some(RuleDecision::Prompt), Some(RuleDecision::Forbidden)];
    rules.into_iter().flat_map(|rule| FLAGS.map(|danger| (rule, danger))).collect()
}

/// Every line of one segment or of two.
fn lines() -> Vec<Vec<Facts>> {
    let one = facts().into_iter().map(|facts| vec![facts]);
    let two =
        facts().into_iter().flat_map(|first| facts().into_iter().map(move |second| vec![first, second]));
    one.chain(two).collect()
}

pub(in crate::core) fn assessment(line: &[Facts]) -> Assessment {
    let segment = |(rule, danger): &Facts| Segment {
        words: vec!["x".into()],
        rule: rule.map(|decision| RuleMatch { decision, rule: "r:1".into(), justification: None }),
        danger: danger.then(|| "rm -rf".to_owned()),
    };
    Assessment {
        segments: line.iter().map(segment).collect(),
        canonical: vec!["x".into()],
        fingerprint: "f".into(),
    }
}

/// What a command comes to, by the letter of the table; a later one is stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::core) enum Needs {
    Skip,
    Ask,
    Forbidden,
}

/// Never rejects all questions, Granular those of a kind whose flag is off.
fn if_asked(policy: &ApprovalPolicy, flag: impl Fn(&Granular) -> bool) -> Needs {
    match policy {
        ApprovalPolicy::Never => Needs::Forbidden,
        ApprovalPolicy::Granular(granular) if !flag(granular) => Needs::Forbidden,
        _ => Needs::Ask,
    }
}

/// There is a sandbox to leave: files, network or paths are restricted, and by this service.
pub(in crate::core) fn restricts(profile: &Profile) -> bool {
    match profile.files {
        Files::External => false,
        Files::ReadOnly | Files::WorkspaceWrite { .. } => true,
        Files::FullAccess => profile.network != Network::On || !profile.deny_read.is_empty(),
    }
}

fn segment_needs(rights: &Rights, asks_for_more: bool, (rule, danger): Facts) -> Needs {
    let about_sandbox = |granular: &Granular| granular.sandbox_approval;
    match (rule, danger) {
        (Some(RuleDecision::Forbidden), _) => Needs::Forbidden,
        (Some(RuleDecision::Prompt), _) => if_asked(&rights.policy, |granular| granular.rules),
        (Some(RuleDecision::Allow), _) => Needs::Skip,
        (None, true) => if_asked(&rights.policy, about_sandbox),
        (None, false) => match rights.policy {
            ApprovalPolicy::Never => Needs::Skip,
            ApprovalPolicy::UnlessTrusted => Needs::Ask,
            ApprovalPolicy::OnRequest | ApprovalPolicy::Granular(_) if asks_for_more => {
                if_asked(&rights.policy, about_sandbox)
            }
            ApprovalPolicy::OnRequest | ApprovalPolicy::Granular(_) => Needs::Skip,
        },
    }
}

pub(in crate::core) fn line_needs(
    rights: &Rights,
    line: &[Facts],
    permissions: &Permissions,
    owner_network: bool,
) -> Needs {
    let asks = *permissions != Permissions::Default;
    let more = asks && restricts(&rights.profile);
    let strictest = line.iter().map(|facts| segment_needs(rights, more, *facts)).max().unwrap();
    // A request to escalate under a policy that rejects such questions is Forbidden, whatever the rules say.
    let if_asked = if_asked(&rights.policy, |granular| granular.sandbox_approval);
    let trusted = line.iter().all(|(rule, _)| *rule == Some(RuleDecision::Allow));
    let keeps_sandbox = owner_network || !rights.profile.deny_read.is_empty();
    let grants = matches!(permissions, Permissions::Additional(_));
    match if_asked {
        Needs::Forbidden if asks => Needs::Forbidden,
        _ if trusted && more && grants && keeps_sandbox => Needs::Ask,
        _ => strictest,
    }
}

fn every_right() -> impl Iterator<Item = Rights> {
    policies().into_iter().flat_map(|policy| {
        profiles().into_iter().flat_map(move |profile| {
            let policy = policy.clone();
            FLAGS.map(|strict_review| Rights {
                policy: policy.clone(),
                strict_review,
                profile: profile.clone(),
            })
        })
    })
}

#[test]
fn a_command_needs_what_the_table_says() {
    let mut rows = 0;
    for rights in every_right() {
        for (line, permissions, owner) in lines().iter().flat_map(|line| {
            permissions().into_iter().flat_map(move |asked| FLAGS.map(|owner| (line, asked.clone(), owner)))
        }) {
            let said = requirement(&rights, &assessment(line), &permissions, owner);
            let expected = line_needs(&rights, line, &permissions, owner);
            let agrees = match said {
                Requirement::Forbidden(_) => expected == Needs::Forbidden,
                Requirement::NeedsApproval(_) => expected == Needs::Ask,
                Requirement::Review => expected == Needs::Skip && rights.strict_review,
                Requirement::Skip => expected == Needs::Skip && !rights.strict_review,
            };
            assert!(agrees, "{said:?} against {expected:?}: {rights:?} {line:?} {permissions:?}");
            rows += 1;
        }
    }
    assert_eq!(rows, 19 * 10 * 2 * 72 * 3 * 2);
}

#[test]
fn only_a_trusted_line_or_an_approved_escalation_bypasses_and_only_where_nothing_forbids_it() {
    for profile in profiles() {
        for (line, asked, approved, owner) in lines().iter().flat_map(|line| {
            permissions().into_iter().flat_map(move |asked| {
                FLAGS.into_iter().flat_map(move |approved| {
                    let asked = asked.clone();
                    FLAGS.map(|owner| (line, asked.clone(), approved, owner))
                })
            })
        }) {
            let trusted = line.iter().all(|(rule, _)| *rule == Some(RuleDecision::Allow));
            assert_eq!(assessment(line).is_trusted(), trusted);
            let wanted = trusted || (asked == Permissions::Escalated && approved);
            let said = first_confinement(&profile, wanted, owner);
            let external = profile.files == Files::External;
            // With an owner's network policy a profile that restricts nothing is no longer one.
            let nothing_to_enforce = !restricts(&profile) && !owner;
            let expected = if external {
                Confinement::External
            } else if nothing_to_enforce {
                Confinement::Unrestricted
            } else if wanted && profile.deny_read.is_empty() && !owner {
                Confinement::Bypassed
            } else {
                Confinement::Profile(Box::new(effective_profile(&profile, "/w", None, owner)))
            };
            let effective = effective_profile(&profile, "/w", None, owner);
            let effective = if owner { first_confinement(&effective, wanted, owner) } else { said };
            assert_eq!(effective, expected, "{profile:?} {line:?} {asked:?} {approved} {owner}");
        }
    }
}

/// The rows of the table of policies, for a denial in the window.
pub(in crate::core) fn row(
    policy: &ApprovalPolicy,
    strict: bool,
    approved: bool,
    bypass: bool,
) -> &'static str {
    match (policy, strict, approved) {
        (ApprovalPolicy::Never | ApprovalPolicy::OnRequest, ..) => "surface",
        (ApprovalPolicy::Granular(granular), ..) if !granular.sandbox_approval => "surface",
        _ if !bypass => "surface",
        (_, true, _) => "review",
        (_, false, true) => "retry",
        (_, false, false) => "ask",
    }
}

#[test]
fn a_denial_leads_to_what_the_row_of_its_policy_says() {
    for rights in every_right() {
        for (approved, owner_network, retriable) in FLAGS.into_iter().flat_map(|approved| {
            FLAGS.into_iter().flat_map(move |owner| FLAGS.map(|retriable| (approved, owner, retriable)))
        }) {
            let frozen = &rights.profile;
            let said = after_denial(&Denial { rights: &rights, frozen, owner_network, approved, retriable });
            let bypass = frozen.deny_read.is_empty() && !owner_network;
            let expected = row(&rights.policy, rights.strict_review, approved, bypass);
            let said = match said {
                AfterDenial::Surface(Gate::Tool) => {
                    assert!(!retriable);
                    continue;
                }
                AfterDenial::Surface(Gate::Policy | Gate::Bypass) => "surface",
                AfterDenial::Retry => "retry",
                AfterDenial::Ask => "ask",
                AfterDenial::Review => "review",
            };
            assert!(retriable, "what cannot be tried again was let through the first gate");
            assert_eq!(said, expected, "{rights:?} approved {approved} owner {owner_network}");
        }
    }
}

#[test]
fn paths_that_may_not_be_read_since_the_launch_stop_a_second_attempt_too() {
    let frozen = Profile { files: Files::ReadOnly, network: Network::Off, deny_read: Vec::new() };
    let profile = Profile { deny_read: vec!["/secret".into()], ..frozen.clone() };
    let rights = Rights { policy: ApprovalPolicy::UnlessTrusted, strict_review: false, profile };
    let denial =
        Denial { rights: &rights, frozen: &frozen, owner_network: false, approved: true, retriable: true };
    assert_eq!(after_denial(&denial), AfterDenial::Surface(Gate::Bypass));
}

/// An exception from `deny_read` and whatever else is granted on top needs an answer even for a trusted line.
#[test]
fn a_rule_trusts_a_command_and_not_what_it_asks_for_on_top() {
    let profile =
        Profile { files: Files::ReadOnly, network: Network::Off, deny_read: vec!["/secret".into()] };
    let rights = Rights { policy: ApprovalPolicy::OnRequest, strict_review: false, profile };
    let read = Additional { read: vec!["/secret".into()], ..Additional::default() };
    let trusted = assessment(&[(Some(RuleDecision::Allow), false)]);
    let said = requirement(&rights, &trusted, &Permissions::Additional(read), false);
    assert_eq!(said, Requirement::NeedsApproval(Reason::Escalation));
}

// Input to a live process.

fn owner(host: &str) -> Vec<NetworkRule> {
    vec![NetworkRule { host: host.into(), ports: Vec::new(), decision: NetworkDecision::Allow }]
}

fn confinements(base: &Profile) -> Vec<Confinement> {
    match base.files {
        Files::External => vec![Confinement::External],
        Files::FullAccess if !restricts(base) => vec![Confinement::Unrestricted],
        _ => vec![Confinement::Bypassed, Confinement::Profile(Box::new(base.clone()))],
    }
}

/// The five rows, by number, for input that is not empty.
fn input_row(launched: &Launched, base: &Profile, now: Option<&[NetworkRule]>) -> u8 {
    let bypassed = launched.confinement == Confinement::Bypassed;
    let has: &[String] = match &launched.confinement {
        Confinement::Profile(profile) => &profile.deny_read,
        Confinement::External => &launched.base.deny_read,
        Confinement::Bypassed | Confinement::Unrestricted => &[],
    };
    if launched.owner_network.as_deref() != now || (bypassed && now.is_some()) {
        1
    } else if base.deny_read.iter().any(|path| !has.contains(path)) {
        2
    } else if bypassed || launched.base != *base {
        3
    } else if launched.additional.is_some() {
        4
    } else {
        5
    }
}

fn expected_input(row: u8, rights: &Rights, additional: Option<&Additional>) -> InputReview {
    let asked = if_asked(&rights.policy, |granular| granular.stdin);
    let needed = |permissions| match asked {
        Needs::Forbidden => InputReview::Forbidden,
        _ => InputReview::Review { permissions, strict: false },
    };
    match row {
        3 => needed(Permissions::Escalated),
        4 => needed(Permissions::Additional(additional.cloned().unwrap())),
        _ if rights.strict_review => InputReview::Review { permissions: Permissions::Default, strict: true },
        _ => InputReview::Skip,
    }
}

#[test]
fn input_is_reviewed_by_the_five_rows() {
    let owners = &[None, Some(owner("a")), Some(owner("b"))];
    let granted = &[None, Some(Additional { write: vec!["/more".into()], ..Additional::default() })];
    let mut rows = [0; 6];
    for rights in every_right() {
        for base in profiles() {
            for (confinement, additional, then, now) in confinements(&base).iter().flat_map(|confinement| {
                granted.iter().flat_map(move |additional| {
                    owners.iter().flat_map(move |then| {
                        owners.iter().map(move |now| (confinement.clone(), additional.clone(), then, now))
                    })
                })
            }) {
                let launched =
                    Launched { confinement, base: base.clone(), additional, owner_network: then.clone() };
                let row = input_row(&launched, &rights.profile, now.as_deref());
                rows[usize::from(row)] += 1;
                let said = input_review(&launched, &rights, &rights.profile, now.as_deref());
                match said {
                    InputReview::Refused(NewTerminal::OwnerNetwork | NewTerminal::Unsandboxed) => {
                        assert_eq!(row, 1, "{launched:?} {rights:?}");
                    }
                    InputReview::Refused(NewTerminal::DenyRead) => {
                        assert_eq!(row, 2, "{launched:?} {rights:?}");
                    }
                    said => {
                        let expected = expected_input(row, &rights, launched.additional.as_ref());
                        assert!(row >= 3, "row {row} was let through: {said:?} {launched:?} {rights:?}");
                        assert_eq!(said, expected, "row {row}: {launched:?} {rights:?}");
                    }
                }
            }
        }
    }
    assert!(rows[1..].iter().all(|row| *row > 0), "{rows:?}");
}

#[test]
fn an_approved_exception_from_deny_read_is_no_new_path_but_another_path_is() {
    let base = Profile { files: Files::ReadOnly, network: Network::Off, deny_read: vec!["/secret".into()] };
    let more = Additional { read: vec!["/secret".into()], ..Additional::default() };
    let launched = Launched {
        confinement: Confinement::Profile(Box::new(base.clone().with(&more))),
        base: base.clone(),
        additional: Some(more.clone()),
        owner_network: None,
    };
    let rights = Rights { policy: ApprovalPolicy::OnRequest, strict_review: false, profile: base.clone() };
    let review = InputReview::Review { permissions: Permissions::Additional(more), strict: false };
    assert_eq!(input_review(&launched, &rights, &base, None), review);
    let stricter = Profile { deny_read: vec!["/secret".into(), "/other".into()], ..base };
    let refused = InputReview::Refused(NewTerminal::DenyRead);
    assert_eq!(input_review(&launched, &rights, &stricter, None), refused);
}
