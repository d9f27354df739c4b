//! Paths as text: what lies below what, and which globs match. Nothing is looked up, so links are not followed.
//!
//! Paths here are absolute and have no `.` or `..`; see [`resolve`].

/// Components that a glob or a path may have; a longer one matches nothing, so that matching stays cheap.
const COMPONENTS_MAX: usize = 256;

/// `path` as seen from `cwd`, without `.`, `..` and empty components. `..` ends at the root, as in a file system.
pub(crate) fn resolve(cwd: &str, path: &str) -> String {
    let base = if path.starts_with('/') { "" } else { cwd };
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// What of `path` lies below `root`; empty for the root itself, `None` outside.
pub(crate) fn below<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(root.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
}

/// Whether `entry`, a path or a glob, covers `path` or a directory above it. A glob that does not start with `/` may
/// start anywhere.
pub(crate) fn covers(entry: &str, path: &str) -> bool {
    if entry.starts_with('/') {
        // Most entries are told by what stands before the first sign of a glob.
        let Some(sign) = entry.find(['*', '?']) else { return below(path, &resolve("/", entry)).is_some() };
        let literal = entry.get(..sign).and_then(|head| head.get(..head.rfind('/')?)).unwrap_or("");
        if !path.starts_with(literal) && !literal.contains("//") && !literal.contains("/.") {
            return false;
        }
    }
    let anywhere = (!entry.starts_with('/')).then_some("**");
    let glob: Vec<&str> =
        anywhere.into_iter().chain(entry.split('/').filter(|part| !part.is_empty())).collect();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if glob.len() > COMPONENTS_MAX || parts.len() > COMPONENTS_MAX {
        return false;
    }
    // What is below a match is covered too, which is the same as a glob that goes on with `**`.
    let glob: Vec<&str> = glob.into_iter().chain(["**"]).collect();
    wild(&glob, &parts, |part| *part == "**", |glob, part| component(glob, part))
}

fn component(glob: &str, part: &str) -> bool {
    if !glob.contains(['*', '?']) {
        return glob == part;
    }
    let glob: Vec<char> = glob.chars().collect();
    let part: Vec<char> = part.chars().collect();
    wild(&glob, &part, |sign| *sign == '*', |sign, found| *sign == '?' || sign == found)
}

/// Matches all of `text`; `many` stands for any number of items. Only the latest `many` is ever tried again, so the
/// cost is at most the product of the lengths.
fn wild<T>(pattern: &[T], text: &[T], many: impl Fn(&T) -> bool, one: impl Fn(&T, &T) -> bool) -> bool {
    let (mut at, mut pos) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    while let Some(item) = text.get(pos) {
        match pattern.get(at) {
            Some(sign) if many(sign) => {
                again = Some((at, pos));
                at += 1;
            }
            Some(sign) if one(sign, item) => {
                at += 1;
                pos += 1;
            }
            _ => {
                let Some((star, from)) = again else { return false };
                again = Some((star, from + 1));
                at = star + 1;
                pos = from + 1;
            }
        }
    }
    pattern.iter().skip(at).all(many)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_resolved_without_looking_anything_up() {
        assert_eq!(resolve("/w", "a/./b//c/"), "/w/a/b/c");
        assert_eq!(resolve("/w/x", "../../../etc"), "/etc");
        assert_eq!(resolve("/w", "/a/../../b"), "/b");
        assert_eq!(resolve("/w", ""), "/w");
    }

    #[test]
    fn names_that_only_begin_alike_are_not_below() {
        assert_eq!(below("/work/a", "/work"), Some("a"));
        assert_eq!(below("/work", "/work/"), Some(""));
        assert_eq!(below("/workshop", "/work"), None);
        assert_eq!(below("/a", "/"), Some("a"));
    }

    #[test]
    fn globs_cover_what_they_match_and_what_is_below() {
        for (entry, path, covered) in [
            ("/s", "/s/deep/down", true),
            ("/s", "/sx", false),
            ("/w/*.pem", "/w/a.pem", true),
            ("/w/*.pem", "/w/d/a.pem", false),
            ("/w/**/*.pem", "/w/a.pem", true),
            ("/w/**/*.pem", "/w/d/e/a.pem", true),
            ("/w/?", "/w/a/below", true),
            ("/w/?", "/w/ab", false),
            ("/home/*/.ssh", "/home/me/.ssh/id", true),
            ("**/.env", "/any/where/.env", true),
            ("/**/secret/**", "/a/secret/b", true),
            ("/w/a*b*c", "/w/aXbXbXc", true),
            ("/w/a*b*c", "/w/aXbX", false),
            ("/w/**", "/w", true),
            ("/w/*", "/w", false),
        ] {
            assert_eq!(covers(entry, path), covered, "{entry} {path}");
        }
    }

    #[test]
    fn a_glob_made_to_be_slow_is_not() {
        let entry = format!("/{}b", "*a".repeat(2_000));
        let path = format!("/{}", "a".repeat(4_000));
        assert!(!covers(&entry, &path));
    }
}
