//! A question as people read it: in one line, or whole. Everything in it is somebody else's text, and is escaped.

use crate::cli::words;
use crate::grpc::pb;

/// How it stands.
pub(super) fn state(approval: &pb::Approval) -> String {
    words::name(approval.state().as_str_name(), "APPROVAL_STATE_")
}

/// What kind of question it is.
pub(super) fn kind(approval: &pb::Approval) -> String {
    words::name(approval.kind().as_str_name(), "APPROVAL_KIND_")
}

/// What is asked about, in one line: a command, input, or a place to connect to.
pub(super) fn subject(approval: &pb::Approval) -> String {
    match approval.kind() {
        pb::ApprovalKind::Stdin => words::exact_bytes(&approval.input),
        pb::ApprovalKind::Network => words::shown(&format!("{}:{}", approval.host, approval.port)),
        pb::ApprovalKind::Command | pb::ApprovalKind::Retry | pb::ApprovalKind::Unspecified => {
            words::exact(&approval.argv)
        }
    }
}

/// `apr_81ac… open command ses_3f0c… npm publish: it asks for more than the session's profile`
pub(super) fn line(approval: &pb::Approval) -> String {
    let Some(decision) = &approval.decision else {
        return format!(
            "{}  {}  {}  {}  {}  in {}: {}\n",
            approval.approval_id,
            state(approval),
            kind(approval),
            approval.session_id,
            subject(approval),
            words::shown(&approval.cwd),
            words::shown(&approval.reason),
        );
    };
    let text =
        if decision.text.is_empty() { String::new() } else { format!(": {}", words::shown(&decision.text)) };
    let by = words::shown(&decision.decided_by);
    format!("{}  {}  by {by}{text}\n", approval.approval_id, state(approval))
}

/// Everything that is to be judged.
pub(super) fn whole(approval: &pb::Approval) -> String {
    let profile = approval.profile.clone().unwrap_or_default();
    let network = profile.network.clone().unwrap_or_default();
    let mut facts = vec![
        ("question", approval.approval_id.clone()),
        ("state", state(approval)),
        ("about", kind(approval)),
        ("command", words::exact(&approval.argv)),
        ("directory", words::shown(&approval.cwd)),
        ("terminal", if approval.tty { "yes" } else { "no" }.to_owned()),
        ("why", words::shown(&approval.reason)),
        ("rule", words::shown(&approval.rule)),
        ("agent says", words::shown(&approval.justification)),
        ("wants", wants(approval)),
        ("profile", words::name(profile.kind().as_str_name(), "SANDBOX_KIND_")),
        ("writable", words::exact(&profile.writable_roots)),
        ("unreadable", words::exact(&profile.deny_read)),
        ("network", words::name(network.mode().as_str_name(), "NETWORK_MODE_")),
        ("proposes", words::exact(&approval.proposed_prefix_rule)),
        ("session", approval.session_id.clone()),
        ("process", approval.process_id.to_string()),
        ("turn", words::shown(&approval.turn_id)),
    ];
    if approval.decision.is_none() {
        facts.push(("answers", answers(approval)));
        facts.extend(approval.expire_time.as_ref().map(|at| ("expires", format!("at {at}"))));
    }
    if let Some(evidence) = &approval.evidence {
        let confidence = words::name(evidence.confidence().as_str_name(), "CONFIDENCE_");
        facts
            .push(("denial", words::shown(&format!("{confidence}: {} {}", evidence.word, evidence.excerpt))));
    }
    if approval.kind() == pb::ApprovalKind::Stdin {
        facts.push(("input", words::exact_bytes(&approval.input)));
        facts.push(("then", if approval.input_eof { "its input ends" } else { "" }.to_owned()));
    }
    if approval.kind() == pb::ApprovalKind::Network {
        facts.push(("host", words::shown(&format!("{}:{}", approval.host, approval.port))));
    }
    if let Some(decision) = &approval.decision {
        let verdict = words::name(decision.verdict().as_str_name(), "VERDICT_");
        facts.push((
            "answer",
            words::shown(format!("{verdict} by {} {}", decision.decided_by, decision.text).trim_end()),
        ));
    }
    facts.retain(|(_, fact)| !fact.is_empty());
    facts.iter().map(|(name, fact)| format!("{name:<11} {fact}").trim_end().to_owned() + "\n").collect()
}

/// What may be answered.
fn answers(approval: &pb::Approval) -> String {
    let name = |verdict: pb::Verdict| words::name(verdict.as_str_name(), "VERDICT_");
    approval.allowed_verdicts().map(name).collect::<Vec<_>>().join(", ")
}

fn wants(approval: &pb::Approval) -> String {
    let asked = words::name(approval.sandbox_permissions().as_str_name(), "SANDBOX_PERMISSIONS_");
    let Some(more) = &approval.additional_permissions else { return asked };
    let mut wants = vec![asked];
    let each = |verb: &'static str, paths: &[String]| {
        paths
            .iter()
            .map(|path| format!("{verb} {}", words::exact(std::slice::from_ref(path))))
            .collect::<Vec<_>>()
    };
    wants.extend(each("write", &more.write));
    wants.extend(each("read", &more.read));
    wants.extend(more.network.then(|| "network".to_owned()));
    wants.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_judged_is_shown_whole_and_does_nothing_to_the_terminal() {
        let asked = pb::Approval {
            argv: ["/tmp/evil", "-c", "ls"].map(str::to_owned).into(),
            justification: "\x1b[2Jtrust me".to_owned(),
            reason: "why\u{202e}".to_owned(),
            rule: "\u{9b}31m".to_owned(),
            cwd: "/a\nb".to_owned(),
            ..Default::default()
        };
        for text in [whole(&asked), line(&asked)] {
            assert!(text.contains("/tmp/evil -c ls"), "{text}");
            assert!(
                !text.trim_end().chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'),
                "{text:?}"
            );
        }
        let input = pb::Approval { input: b"\x1bc\xff".as_slice().into(), ..asked };
        let input = pb::Approval { kind: pb::ApprovalKind::Stdin.into(), ..input };
        assert!(whole(&input).contains("\\u{1b}c\\xff"), "{}", whole(&input));
    }
}
