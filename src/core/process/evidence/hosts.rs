//! The hosts that a network's error message is about.

/// Words after which a name without a dot is a host.
const SURE: &[&str] =
    &["host", "hostname", "lookup", "resolving", "eai_again", "enetunreach", "unknownhostexception"];
/// Words after which a name with a dot is a host.
const LIKELY: &[&str] = &["resolve", "address", "to"];

/// The hosts that `line` names, in order.
pub(super) fn named(line: &str) -> Vec<&str> {
    let mut hosts = Vec::new();
    let mut previous = "";
    for token in line.split(|c: char| c.is_whitespace() || "'\"`(),;<>\u{2018}\u{2019}".contains(c)) {
        let token = token.trim_end_matches([':', '.']);
        if token.is_empty() {
            continue;
        }
        let host = authority(token);
        if is_address(host) || is_domain(host) && (token.contains("://") || announced(previous, host)) {
            hosts.push(host.trim_start_matches('[').trim_end_matches(']'));
        }
        previous = token;
    }
    hosts
}

/// The host of a URL, of `host:port`, or of bash's `/dev/tcp/host/port`.
fn authority(token: &str) -> &str {
    let rest = token.split_once("://").map_or(token, |(_, rest)| rest);
    let rest = rest.strip_prefix("/dev/tcp/").unwrap_or(rest);
    let rest = rest.split('/').next().unwrap_or(rest);
    let rest = rest.rsplit('@').next().unwrap_or(rest);
    if rest.parse::<::core::net::Ipv6Addr>().is_ok() {
        return rest;
    }
    match rest.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.chars().all(|c| c.is_ascii_digit()) => host,
        _ => rest,
    }
}

fn is_address(host: &str) -> bool {
    host.trim_start_matches('[').trim_end_matches(']').parse::<::core::net::IpAddr>().is_ok()
}

fn is_domain(host: &str) -> bool {
    !host.is_empty()
        && host.split('.').all(|label| {
            !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
        })
        && host.chars().any(char::is_alphabetic)
}

fn announced(previous: &str, host: &str) -> bool {
    let word = previous.trim_end_matches(':').rsplit('.').next().unwrap_or("");
    let is = |known: &[&str]| known.iter().any(|known| word.eq_ignore_ascii_case(known));
    let dotted = host.contains('.');
    // A name without a dot is told from the next word of a sentence by its small letters only.
    let single = !host.contains(char::is_uppercase) && !matches!(host, "address" | "name");
    is(SURE) && (dotted || single) || dotted && is(LIKELY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_in_the_shapes_of_real_tools() {
        for (line, host) in [
            ("curl: (6) Could not resolve host: example.com", "example.com"),
            ("ssh: connect to host 1.1.1.1 port 22: Network is unreachable", "1.1.1.1"),
            ("wget: unable to resolve host address \u{2018}example.com\u{2019}", "example.com"),
            ("Error: getaddrinfo EAI_AGAIN db", "db"),
            ("Err:1 Temporary failure resolving 'deb.debian.org'", "deb.debian.org"),
            ("java.net.UnknownHostException: example.com", "example.com"),
            ("bash: line 1: /dev/tcp/1.1.1.1/80: Network is unreachable", "1.1.1.1"),
            ("connect ENETUNREACH 2001:db8::1:443", "2001:db8::1:443"),
            ("dial tcp [2001:db8::1]:443: connect: network is unreachable", "2001:db8::1"),
        ] {
            assert_eq!(named(line), [host], "{line}");
        }
        let url = "unable to access 'https://me@github.com:8443/x/': Could not resolve host: github.com";
        assert_eq!(named(url), ["github.com", "github.com"]);
    }

    #[test]
    fn what_is_no_host_is_not_taken_for_one() {
        for line in [
            "No route to host",
            "Address family not supported",
            "Couldn't connect to server",
            "main.go: failed",
        ] {
            assert_eq!(named(line), Vec::<&str>::new(), "{line}");
        }
    }
}
