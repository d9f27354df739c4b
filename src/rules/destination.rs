//! The hosts of rules for connections: which forms are taken.

use std::net::IpAddr;

/// Longest name that the domain name system knows.
const NAME_MAX: usize = 253;

/// In lower case, if it is a host name, `*.` and a domain, an address, a CIDR range, or `*`; else what is wrong.
pub(super) fn host(text: &str) -> Result<String, String> {
    let host = text.to_ascii_lowercase();
    let name = host.strip_prefix("*.").unwrap_or(&host);
    if host == "*" || host.parse::<IpAddr>().is_ok() || is_range(&host) || is_name(name) {
        return Ok(host);
    }
    Err(format!("{text:?} is no host: give a name, *.domain, an address, a range such as 10.0.0.0/8, or *"))
}

fn is_range(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let bits = bits.parse::<u8>().ok();
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => bits.is_some_and(|bits| bits <= 32),
        Ok(IpAddr::V6(_)) => bits.is_some_and(|bits| bits <= 128),
        Err(_) => false,
    }
}

/// Letters, digits, `-` and `_` between dots. What ends in a number is a mistyped address.
fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= NAME_MAX && name.split('.').all(is_label) && !last.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_five_forms() {
        for text in
            ["example.org", "*.example.org", "localhost", "10.0.0.1", "::1", "10.0.0.0/8", "fe80::/10", "*"]
        {
            assert_eq!(host(text).as_deref(), Ok(text));
        }
        assert_eq!(host("Example.ORG").as_deref(), Ok("example.org"));
        for text in [
            "",
            "*.",
            "**",
            "a.*",
            "*.*.org",
            "http://a",
            "a:80",
            "a/8",
            "10.0.0.0/33",
            "::/129",
            "10.0.0",
            "1.2.3.4.5",
            "a..b",
            "-a.org",
            "a b",
            "[::1]",
            "*.10.0.0.1",
        ] {
            assert!(host(text).is_err(), "{text}");
        }
    }
}
