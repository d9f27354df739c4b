//! What names resolve to.

use crate::support::*;

async fn status(proxy: &Running, target: &str) -> String {
    match proxy.tunnel(target).await {
        Ok(_) => "200".into(),
        Err(answer) => answer.split(' ').nth(1).unwrap().to_owned(),
    }
}

#[tokio::test]
async fn a_name_that_leads_inside_is_refused_however_it_is_allowed() {
    let port = echo().await;
    for inside in
        ["127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "::1", "fd00::1", "fe80::1", "::"]
    {
        let gate = RuleGate::never(rules(&[("*", Allow), ("origin.test", Allow)]));
        let proxy = Running::start(gate, Scripted::to(&[inside]));
        let answer = proxy.tunnel(&format!("origin.test:{port}")).await.unwrap_err();
        assert!(answer.starts_with("HTTP/1.1 403 "), "{inside}: {answer}");
        assert!(answer.contains(inside) && answer.contains("by number"), "{inside}: {answer}");
    }
}

#[tokio::test]
async fn a_name_that_leads_both_inside_and_outside_is_refused() {
    let port = echo().await;
    for addresses in [["127.0.0.1", "10.0.0.1"], ["10.0.0.1", "127.0.0.1"]] {
        let gate = RuleGate::never(rules(&[("origin.test", Allow), ("127.0.0.1", Allow)]));
        let proxy = Running::start(gate, Scripted::to(&addresses));
        assert_eq!(status(&proxy, &format!("origin.test:{port}")).await, "403", "{addresses:?}");
    }
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_resolved_once_and_gains_nothing() {
    let port = echo().await;
    let resolver = Scripted::new(|_, before| {
        Ok(vec![if before == 0 { "127.0.0.1" } else { "127.0.0.2" }.parse().unwrap()])
    });
    let gate = RuleGate::never(rules(&[("origin.test", Allow), ("127.0.0.1", Allow)]));
    let proxy = Running::start(gate, resolver.clone());
    let mut tunnel = proxy.tunnel(&format!("origin.test:{port}")).await.unwrap();
    assert!(echoes(&mut tunnel, "hello").await);
    assert_eq!(resolver.lookups(), 1, "judged and connected to by the same answer");
    assert_eq!(
        status(&proxy, &format!("origin.test:{port}")).await,
        "403",
        "the next answer is judged again"
    );
    assert_eq!(resolver.lookups(), 2);
}

#[tokio::test]
async fn an_address_that_rules_ask_about_is_asked_about_by_itself() {
    let port = echo().await;
    let (gate, mut held) = RuleGate::asking(rules(&[("origin.test", Allow), ("127.0.0.0/8", Ask)]));
    let proxy = Running::start(gate, Scripted::to(&["127.0.0.1"]));
    let answers = tokio::spawn(async move {
        for yes in [true, false] {
            let question = held.recv().await.unwrap();
            assert_eq!((question.host.as_str(), question.port), ("127.0.0.1", port));
            question.answer.send(yes).unwrap();
        }
    });
    assert_eq!(status(&proxy, &format!("origin.test:{port}")).await, "200");
    assert_eq!(status(&proxy, &format!("origin.test:{port}")).await, "403");
    answers.await.unwrap();
}

#[tokio::test]
async fn addresses_are_tried_in_their_order_until_one_answers() {
    let port = echo().await;
    let gate = RuleGate::never(rules(&[("origin.test", Allow), ("127.0.0.0/8", Allow)]));
    let proxy = Running::start(gate, Scripted::to(&["127.0.0.9", "127.0.0.8", "127.0.0.1"]));
    let mut tunnel = proxy.tunnel(&format!("origin.test:{port}")).await.unwrap();
    assert!(echoes(&mut tunnel, "hello").await);
}

#[tokio::test]
async fn odd_spellings_of_the_loopback_never_reach_a_resolver() {
    let port = echo().await;
    let resolver = Scripted::to(&["127.0.0.1"]);
    let gate = RuleGate::never(rules(&[("*", Allow), ("127.0.0.1", Allow)]));
    let proxy = Running::start(gate.clone(), resolver.clone());
    for odd in ["127.1", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "2130706433", "127.0.0.01", "0"] {
        assert_eq!(status(&proxy, &format!("{odd}:{port}")).await, "403", "{odd}");
        assert_eq!(proxy.socks(odd, port).await.err(), Some(2), "{odd}");
    }
    assert_eq!((resolver.lookups(), gate.asked().len()), (0, 0));
}

#[tokio::test]
async fn the_systems_own_resolver_knows_localhost_and_it_is_refused() {
    use std::sync::Arc;
    use unified_exec::proxy::{Resolve as _, SystemResolver};
    let resolver = Arc::new(SystemResolver::new());
    let found = resolver.resolve("localhost".into()).await.unwrap();
    assert!(found.iter().all(std::net::IpAddr::is_loopback) && !found.is_empty(), "{found:?}");
    let port = echo().await;
    let target = format!("localhost:{port}");
    let proxy = Running::start(RuleGate::never(rules(&[("*", Allow)])), resolver.clone());
    assert_eq!(status(&proxy, &target).await, "403");
    let named = rules(&[("localhost", Allow), ("127.0.0.1", Allow), ("::1", Allow)]);
    let proxy = Running::start(RuleGate::never(named), resolver);
    assert_eq!(status(&proxy, &target).await, "200");
}

#[tokio::test]
async fn a_gate_that_says_yes_does_not_loosen_the_frozen_rules() {
    use std::sync::Arc;
    use unified_exec::core::policy::{Egress, Host};
    use unified_exec::host::ports::{BoxFuture, Gate, GateAnswer};

    #[derive(Debug)]
    struct Yes(Arc<Egress>);
    impl Gate for Yes {
        fn open(&self, _: Host, _: u16) -> BoxFuture<GateAnswer> {
            let egress = Arc::clone(&self.0);
            Box::pin(async move { GateAnswer::Allowed(egress) })
        }
    }
    let port = echo().await;
    let proxy = Running::start(Arc::new(Yes(rules(&[("evil.test", Deny)]))), Scripted::to(&["8.8.8.8"]));
    for host in ["evil.test", "127.0.0.1", "localhost"] {
        assert_eq!(status(&proxy, &format!("{host}:{port}")).await, "403", "{host}");
    }
}
