use proptest::prelude::*;

use super::*;
use NetworkDecision::{Allow, Ask, Deny};

fn rule(host: &str, ports: &[u16], decision: NetworkDecision) -> NetworkRule {
    NetworkRule { host: host.into(), ports: ports.into(), decision }
}

fn egress(rules: &[(&str, NetworkDecision)]) -> Egress {
    let rules: Vec<_> = rules.iter().map(|(host, decision)| rule(host, &[], *decision)).collect();
    Egress::new(&rules, None).unwrap()
}

fn owned(rules: &[(&str, NetworkDecision)], owner: &[(&str, NetworkDecision)]) -> Egress {
    let read = |rules: &[(&str, NetworkDecision)]| -> Vec<_> {
        rules.iter().map(|(host, decision)| rule(host, &[], *decision)).collect()
    };
    Egress::new(&read(rules), Some(&read(owner))).unwrap()
}

fn decide(egress: &Egress, host: &str) -> NetworkDecision {
    egress.decide(&Host::parse(host).unwrap(), 443)
}

fn resolved(egress: &Egress, address: &str) -> NetworkDecision {
    egress.resolved(address.parse().unwrap(), 443)
}

#[test]
fn the_strictest_match_decides_and_what_nothing_matches_is_asked_about() {
    let rules = egress(&[
        ("*.example.com", Allow),
        ("ask.example.com", Ask),
        ("evil.example.com", Deny),
        ("*", Ask),
        ("8.8.8.0/24", Deny),
    ]);
    assert_eq!(decide(&rules, "evil.example.com"), Deny);
    assert_eq!(decide(&rules, "EVIL.example.com."), Deny);
    assert_eq!(decide(&rules, "ask.example.com"), Ask);
    assert_eq!(decide(&rules, "8.8.8.8"), Deny);
    assert_eq!(decide(&egress(&[("*.example.com", Allow)]), "a.example.com"), Allow);
    assert_eq!(decide(&egress(&[("*.example.com", Allow)]), "example.com"), Ask);
    assert_eq!(decide(&egress(&[]), "example.com"), Ask);
    assert_eq!(decide(&egress(&[]), "8.8.8.8"), Ask);
}

#[test]
fn a_rule_with_ports_speaks_of_those_only() {
    let rules = [rule("example.com", &[443, 8443], Allow), rule("10.0.0.0/8", &[5432], Allow)];
    let egress = Egress::new(&rules, None).unwrap();
    let name = Host::parse("example.com").unwrap();
    assert_eq!(egress.decide(&name, 443), Allow);
    assert_eq!(egress.decide(&name, 8443), Allow);
    assert_eq!(egress.decide(&name, 80), Ask);
    let address = "10.1.2.3".parse().unwrap();
    assert_eq!(egress.resolved(address, 5432), Allow);
    assert_eq!(egress.resolved(address, 5433), Deny);
    assert_eq!(egress.decide(&Host::Address(address), 5433), Deny);
}

#[test]
fn what_is_not_public_is_refused_unless_a_rule_names_its_address() {
    let everything = egress(&[("*", Allow), ("metadata.example", Allow), ("localhost", Allow)]);
    assert_eq!(decide(&everything, "8.8.8.8"), Allow);
    for inside in
        ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "localhost", "a.localhost", "::ffff:10.0.0.1"]
    {
        assert_eq!(decide(&everything, inside), Deny, "{inside}");
    }
    assert_eq!(decide(&everything, "metadata.example"), Allow, "a name is judged again once it is resolved");
    assert_eq!(resolved(&everything, "169.254.169.254"), Deny);
    assert_eq!(resolved(&everything, "8.8.8.8"), Allow);

    let named =
        egress(&[("*", Allow), ("169.254.169.254", Allow), ("10.0.0.0/8", Ask), ("127.0.0.1/32", Allow)]);
    assert_eq!(resolved(&named, "169.254.169.254"), Allow);
    assert_eq!(resolved(&named, "64:ff9b::169.254.169.254"), Allow);
    assert_eq!(resolved(&named, "169.254.169.253"), Deny);
    assert_eq!(resolved(&named, "10.0.0.1"), Ask, "about the address itself");
    assert_eq!(decide(&named, "10.0.0.1"), Ask);
    assert_eq!(decide(&named, "localhost"), Allow);
    assert_eq!(resolved(&named, "::1"), Deny, "the other loopback was not named");
}

#[test]
fn a_name_cannot_lead_to_an_address_that_a_rule_refuses() {
    let rules = egress(&[("*", Allow), ("8.8.8.0/24", Deny), ("9.9.9.9", Ask)]);
    assert_eq!(resolved(&rules, "8.8.8.8"), Deny);
    assert_eq!(resolved(&rules, "::ffff:8.8.8.8"), Deny);
    assert_eq!(resolved(&rules, "64:ff9b::8.8.8.8"), Deny, "the way through a translator");
    assert_eq!(resolved(&rules, "9.9.9.9"), Ask);
    let owner = owned(&[("*", Allow), ("127.0.0.1", Allow)], &[("8.8.8.8", Deny), ("127.0.0.0/8", Deny)]);
    assert_eq!(resolved(&owner, "8.8.8.8"), Deny);
    assert_eq!(resolved(&owner, "127.0.0.1"), Deny);
}

#[test]
fn the_owners_rules_bound_those_of_a_session() {
    let listed = owned(&[("*", Allow)], &[("*.example.com", Allow), ("ask.example.com", Ask)]);
    assert_eq!(decide(&listed, "a.example.com"), Allow);
    assert_eq!(decide(&listed, "ask.example.com"), Ask);
    assert_eq!(decide(&listed, "example.org"), Deny, "a list of what may be reached");
    assert_eq!(resolved(&listed, "8.8.8.8"), Allow, "the name was on the list");

    let unlisted = owned(&[("*", Allow)], &[("evil.example", Deny), ("odd.example", Ask)]);
    assert_eq!(decide(&unlisted, "example.org"), Allow, "a list of what may not");
    assert_eq!(decide(&unlisted, "evil.example"), Deny);
    assert_eq!(decide(&unlisted, "odd.example"), Ask);

    let silent = owned(&[], &[("*", Allow)]);
    assert_eq!(decide(&silent, "example.org"), Ask, "a bound lets nothing through by itself");
    assert_eq!(decide(&silent, "10.0.0.1"), Deny);
    assert_eq!(decide(&owned(&[("*", Allow)], &[]), "example.org"), Allow);
}

#[test]
fn a_rule_that_cannot_be_read_is_named_and_not_left_out() {
    let rules = [rule("*", &[], Allow), rule("10.0.0.1/8", &[], Deny)];
    let error = Egress::new(&rules, None).unwrap_err();
    assert_eq!((error.owner, error.index), (false, 1));
    assert!(error.to_string().starts_with("network rule 2: "), "{error}");
    let error = Egress::new(&[], Some(&rules)).unwrap_err();
    assert!(error.to_string().starts_with("network rule 2 of the server's owner: "), "{error}");
}

const PATTERNS: &[&str] = &[
    "*",
    "example.com",
    "*.example.com",
    "a.example.com",
    "localhost",
    "10.0.0.0/8",
    "10.1.2.3",
    "8.8.8.8",
    "8.0.0.0/8",
    "127.0.0.1",
    "::1",
    "2000::/3",
    "0.0.0.0/0",
];
const HOSTS: &[&str] = &[
    "example.com",
    "a.example.com",
    "b.a.example.com",
    "example.org",
    "localhost",
    "10.1.2.3",
    "10.9.9.9",
    "8.8.8.8",
    "9.9.9.9",
    "127.0.0.1",
    "::1",
    "2606:4700::1111",
    "64:ff9b::8.8.8.8",
];

fn any_rule() -> impl Strategy<Value = NetworkRule> {
    let decision = prop::sample::select(&[Allow, Ask, Deny][..]);
    let ports = prop::sample::select(vec![vec![], vec![443], vec![80, 443], vec![80]]);
    (prop::sample::select(PATTERNS), ports, decision).prop_map(|(host, ports, decision)| NetworkRule {
        host: host.into(),
        ports,
        decision,
    })
}

fn any_rules() -> impl Strategy<Value = Vec<NetworkRule>> {
    prop::collection::vec(any_rule(), 0..8)
}

/// Every decision that these rules lead to: on each host as it is asked for, and on each address as it is resolved.
fn decisions(rules: &[NetworkRule], owner: Option<&[NetworkRule]>) -> Vec<NetworkDecision> {
    let egress = Egress::new(rules, owner).unwrap();
    let hosts: Vec<_> = HOSTS.iter().map(|host| Host::parse(host).unwrap()).collect();
    let mut all = Vec::new();
    for port in [80, 443, 22] {
        all.extend(hosts.iter().map(|host| egress.decide(host, port)));
        all.extend(hosts.iter().filter_map(|host| match host {
            Host::Address(address) => Some(egress.resolved(*address, port)),
            Host::Name(_) => None,
        }));
    }
    all
}

fn nowhere_looser(stricter: &[NetworkDecision], looser: &[NetworkDecision]) -> bool {
    stricter.len() == looser.len() && stricter.iter().zip(looser).all(|(stricter, looser)| stricter >= looser)
}

proptest! {
    #[test]
    fn the_order_of_rules_means_nothing(rules in any_rules(), owner in any_rules(), seed in any::<usize>()) {
        let turned = |rules: &[NetworkRule]| {
            let mut turned = rules.to_vec();
            turned.rotate_left(seed % rules.len().max(1));
            turned.reverse();
            turned
        };
        prop_assert_eq!(
            decisions(&rules, Some(&owner)),
            decisions(&turned(&rules), Some(&turned(&owner)))
        );
    }

    #[test]
    fn a_rule_that_refuses_never_lets_more_through(
        rules in any_rules(), owner in prop::option::of(any_rules()), host in prop::sample::select(PATTERNS)
    ) {
        let more = [rules.clone(), vec![rule(host, &[], Deny)]].concat();
        prop_assert!(nowhere_looser(&decisions(&more, owner.as_deref()), &decisions(&rules, owner.as_deref())));
        if let Some(owner) = owner {
            let more = [owner.clone(), vec![rule(host, &[], Deny)]].concat();
            prop_assert!(nowhere_looser(&decisions(&rules, Some(&more)), &decisions(&rules, Some(&owner))));
        }
    }

    #[test]
    fn an_owner_is_never_loosened(rules in any_rules(), more in any_rules(), owner in any_rules()) {
        let bounded = decisions(&rules, Some(&owner));
        prop_assert!(nowhere_looser(&bounded, &decisions(&rules, None)), "an owner only takes away");
        // What no rules of any session can get past: the decisions for a session that allows all there is.
        let everything: Vec<_> =
            PATTERNS.iter().chain(&["::/0"]).map(|host| rule(host, &[], Allow)).collect();
        let bound = decisions(&everything, Some(&owner));
        prop_assert!(nowhere_looser(&bounded, &bound));
        prop_assert!(nowhere_looser(&decisions(&[rules, more].concat(), Some(&owner)), &bound));
    }

    #[test]
    fn whatever_is_read_as_a_host_is_read_the_same_again(text in "[a-zA-Z0-9.:\\[\\]x-]{0,24}") {
        if let Ok(host) = Host::parse(&text) {
            prop_assert_eq!(Host::parse(&host.to_string()), Ok(host));
        }
    }

    #[test]
    fn no_text_breaks_the_reading(text in any::<String>()) {
        let _ = Host::parse(&text);
        let _ = HostPattern::parse(&text);
        let _ = HostPattern::parse(&format!("{text}/8"));
    }
}
