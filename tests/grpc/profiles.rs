//! Policies, profiles and bounds that a session is given: what comes back, and what cannot be.

use tonic::Code;
use unified_exec::core::policy::{ApprovalPolicy, Rights};
use unified_exec::grpc::pb;

use crate::sessions::{create, update};
use crate::support::{Bench, assert_refused, server, settings};

#[tokio::test]
async fn every_policy_and_profile_comes_back_as_it_was_asked_for() {
    let ceiling = Rights { policy: ApprovalPolicy::OnRequest, ..Rights::unrestricted() };
    let bench = Bench::on(server(settings(ceiling.clone()), ceiling)).await;
    let granular = pb::GranularApproval { rules: true, sandbox_approval: false, network: true, stdin: false };
    for (mode, granular) in [
        (pb::ApprovalMode::Never, None),
        (pb::ApprovalMode::OnRequest, None),
        (pb::ApprovalMode::UnlessTrusted, None),
        (pb::ApprovalMode::Granular, Some(granular)),
    ] {
        let policy = pb::ApprovalPolicy { mode: mode.into(), granular, strict_review: false };
        let config = pb::SessionConfig { approval_policy: Some(policy), ..Default::default() };
        let session = create(&bench, config).await.unwrap();
        assert_eq!(session.config.unwrap().approval_policy, Some(policy));
    }
    let rule = pb::NetworkRule {
        host: "*.example.com".into(),
        ports: vec![443],
        decision: pb::NetworkDecision::Ask.into(),
    };
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (kind, mode, roots) in [
        (pb::SandboxKind::ReadOnly, pb::NetworkMode::Off, words(&[])),
        (pb::SandboxKind::WorkspaceWrite, pb::NetworkMode::Proxied, words(&["/tmp"])),
        (pb::SandboxKind::FullAccess, pb::NetworkMode::On, words(&[])),
    ] {
        let rules = if mode == pb::NetworkMode::Proxied { vec![rule.clone()] } else { Vec::new() };
        let sandbox = pb::SandboxProfile {
            kind: kind.into(),
            protected_subpaths: if roots.is_empty() { Vec::new() } else { words(&[".git", "sub/keep"]) },
            writable_roots: roots,
            deny_read: words(&["/etc/shadow", "/home/**/.ssh"]),
            network: Some(pb::NetworkPolicy { mode: mode.into(), rules }),
        };
        let config = pb::SessionConfig { sandbox: Some(sandbox.clone()), ..Default::default() };
        let session = create(&bench, config).await.unwrap();
        assert_eq!(session.config.unwrap().sandbox, Some(sandbox));
    }
}

#[tokio::test]
async fn places_of_a_profile_that_cannot_be_are_named() {
    let bench = Bench::start().await;
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let profile =
        || pb::SandboxProfile { kind: pb::SandboxKind::WorkspaceWrite.into(), ..Default::default() };
    let rule = |ports: Vec<u32>, decision: i32| {
        let rule = pb::NetworkRule { host: "*".into(), ports, decision };
        let network = pb::NetworkPolicy { mode: pb::NetworkMode::Proxied.into(), rules: vec![rule] };
        pb::SandboxProfile { network: Some(network), ..profile() }
    };
    let off = pb::NetworkPolicy {
        rules: vec![pb::NetworkRule { host: "*".into(), ..Default::default() }],
        mode: 0,
    };
    for (sandbox, field) in [
        (pb::SandboxProfile { writable_roots: words(&["/a", "b"]), ..profile() }, "writable_roots[1]"),
        (pb::SandboxProfile { writable_roots: words(&["/a/*"]), ..profile() }, "writable_roots[0]"),
        (pb::SandboxProfile { writable_roots: words(&["/a/../b"]), ..profile() }, "writable_roots[0]"),
        (pb::SandboxProfile { writable_roots: words(&["/a\0"]), ..profile() }, "writable_roots[0]"),
        (pb::SandboxProfile { writable_roots: vec!["/a".into(); 257], ..profile() }, "writable_roots"),
        (pb::SandboxProfile { writable_roots: words(&["/a"]), kind: 1, ..profile() }, "writable_roots"),
        (pb::SandboxProfile { protected_subpaths: words(&["/.git"]), ..profile() }, "protected_subpaths[0]"),
        (
            pb::SandboxProfile { protected_subpaths: words(&["a", "../b"]), ..profile() },
            "protected_subpaths[1]",
        ),
        (pb::SandboxProfile { protected_subpaths: words(&[""]), ..profile() }, "protected_subpaths[0]"),
        (pb::SandboxProfile { protected_subpaths: words(&["a//b"]), ..profile() }, "protected_subpaths[0]"),
        (
            pb::SandboxProfile { protected_subpaths: words(&[".git"]), kind: 3, ..profile() },
            "protected_subpaths",
        ),
        (pb::SandboxProfile { deny_read: words(&["*.key"]), ..profile() }, "deny_read[0]"),
        (pb::SandboxProfile { deny_read: words(&["/a/../b"]), ..profile() }, "deny_read[0]"),
        (
            pb::SandboxProfile { deny_read: vec![format!("/{}", "x".repeat(4_096))], ..profile() },
            "deny_read[0]",
        ),
        (pb::SandboxProfile { kind: 9, ..profile() }, "kind"),
        (rule(vec![0], 1), "network.rules[0].ports"),
        (rule(vec![65_536], 1), "network.rules[0].ports"),
        (rule(vec![1; 257], 1), "network.rules[0].ports"),
        (rule(Vec::new(), 0), "network.rules[0].decision"),
        (rule(Vec::new(), 9), "network.rules[0].decision"),
        (pb::SandboxProfile { network: Some(off), ..profile() }, "network.rules[0].decision"),
    ] {
        let config = pb::SessionConfig { sandbox: Some(sandbox), ..Default::default() };
        let refused = create(&bench, config).await;
        let refused = assert_refused(refused, Code::InvalidArgument, "INVALID_FIELD");
        assert_eq!(refused.field(), format!("config.sandbox.{field}"));
    }
    let modes = |mode: i32, granular| pb::SessionConfig {
        approval_policy: Some(pb::ApprovalPolicy { mode, granular, strict_review: false }),
        ..Default::default()
    };
    let limits =
        |process_limits| pb::SessionConfig { process_limits: Some(process_limits), ..Default::default() };
    let none = pb::ResourceLimits::default;
    for (config, field) in [
        (modes(9, None), "config.approval_policy.mode"),
        (modes(1, Some(pb::GranularApproval::default())), "config.approval_policy.granular"),
        (pb::SessionConfig { min_confidence: 9, ..Default::default() }, "config.min_confidence"),
        (
            limits(pb::ResourceLimits { memory_bytes: Some(1), ..none() }),
            "config.process_limits.memory_bytes",
        ),
        (limits(pb::ResourceLimits { max_pids: Some(0), ..none() }), "config.process_limits.max_pids"),
        (limits(pb::ResourceLimits { open_files: Some(1), ..none() }), "config.process_limits.open_files"),
    ] {
        let refused = create(&bench, config).await;
        assert_eq!(assert_refused(refused, Code::InvalidArgument, "INVALID_FIELD").field(), field);
    }
}

#[tokio::test]
async fn bounds_on_questions_evidence_and_processes_can_only_be_drawn_closer_by_an_agent() {
    let bench = Bench::start().await;
    let expiry = |ms| pb::SessionConfig {
        limits: Some(pb::SessionLimits { approval_expiry_ms: Some(ms), ..Default::default() }),
        ..Default::default()
    };
    let memory = |bytes| pb::SessionConfig {
        process_limits: Some(pb::ResourceLimits { memory_bytes: bytes, ..Default::default() }),
        ..Default::default()
    };
    let confidence =
        |least: pb::Confidence| pb::SessionConfig { min_confidence: least.into(), ..Default::default() };
    let session = create(&bench, expiry(1_000)).await.unwrap();
    assert_eq!(session.config.unwrap().limits.unwrap().approval_expiry_ms, Some(1_000));
    for (never_or_later, fact) in [(0, "limits.approval_expiry_ms"), (600_001, "limits.approval_expiry_ms")] {
        let refused = create(&bench, expiry(never_or_later)).await;
        assert_eq!(assert_refused(refused, Code::PermissionDenied, "WIDENING_DENIED").fact("field"), fact);
    }
    let limited = create(&bench, memory(Some(1 << 30))).await.unwrap();
    let held = limited.config.unwrap().process_limits.unwrap().memory_bytes;
    assert_eq!(held, Some(1 << 30));
    let sure = confidence(pb::Confidence::Certain);
    let changed = update(&bench, &["min_confidence", "process_limits"], 0, sure).await.unwrap();
    assert_eq!(changed.config.unwrap().min_confidence(), pb::Confidence::Certain);
    // Back to the default is no widening beyond it.
    update(&bench, &["min_confidence"], 0, confidence(pb::Confidence::Likely)).await.unwrap();
}

#[tokio::test]
async fn a_network_rule_whose_host_cannot_be_read_is_named_with_the_way_out() {
    let bench = Bench::start().await;
    let long = "a".repeat(257);
    for (host, words) in [
        ("", "required"),
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("127.1", "four decimal numbers"),
        ("*.*.example.com", "star"),
        ("https://example.com", "without scheme"),
        ("example.com:443", "':'"),
        (&long, "256"),
    ] {
        let rule = |host: &str| pb::NetworkRule {
            host: host.into(),
            ports: Vec::new(),
            decision: pb::NetworkDecision::Deny.into(),
        };
        let network = pb::NetworkPolicy {
            mode: pb::NetworkMode::Proxied.into(),
            rules: vec![rule("*.example.com"), rule(host)],
        };
        let sandbox = pb::SandboxProfile {
            kind: pb::SandboxKind::FullAccess.into(),
            network: Some(network),
            ..Default::default()
        };
        let config = pb::SessionConfig { sandbox: Some(sandbox), ..Default::default() };
        let refused = assert_refused(create(&bench, config).await, Code::InvalidArgument, "INVALID_FIELD");
        assert_eq!(refused.field(), "config.sandbox.network.rules[1].host", "{host}");
        assert!(refused.status.message().contains(words), "{host}: {}", refused.status.message());
    }
}
