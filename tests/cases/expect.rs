//! Compares what came of a process with what a case expects.

use sha2::{Digest as _, Sha256};

use crate::case::{Expect, unhex};

/// What came of it: the code as a shell gives it, if it ended, and all of its output.
#[derive(Debug)]
pub(crate) struct Outcome<'a> {
    pub(crate) code: Option<i32>,
    pub(crate) output: &'a [u8],
}

pub(crate) fn check(expect: &Expect, outcome: &Outcome<'_>) -> Result<(), String> {
    let output = outcome.output;
    let shown = || {
        let from = output.len().saturating_sub(600);
        format!("{:?}", String::from_utf8_lossy(&output[from..]))
    };
    let require = |holds: bool, what: &dyn Fn() -> String| if holds { Ok(()) } else { Err(what()) };
    if let Some(codes) = &expect.exit {
        let right = outcome.code.is_some_and(|code| codes.allow(code));
        require(right, &|| format!("exit {:?}, wanted {codes:?}; output {}", outcome.code, shown()))?;
    }
    for text in &expect.contains {
        require(count(output, text) > 0, &|| format!("lacks {text:?} in {}", shown()))?;
    }
    for text in &expect.absent {
        require(count(output, text) == 0, &|| format!("has {text:?} in {}", shown()))?;
    }
    if let Some(text) = &expect.equals {
        require(output == text.as_bytes(), &|| format!("wanted {text:?}, got {}", shown()))?;
    }
    if let Some(hex) = &expect.equals_hex {
        require(output == unhex(hex), &|| format!("wanted {hex}, got {output:x?}"))?;
    }
    if let Some(text) = &expect.starts {
        require(output.starts_with(text.as_bytes()), &|| format!("does not start with {text:?}"))?;
    }
    if let Some(text) = &expect.ends {
        require(output.ends_with(text.as_bytes()), &|| format!("wanted {text:?} at the end of {}", shown()))?;
    }
    if let Some(bytes) = expect.bytes {
        require(output.len() == bytes, &|| format!("{} bytes, wanted {bytes}", output.len()))?;
    }
    if let Some(bytes) = expect.min_bytes {
        require(output.len() >= bytes, &|| format!("{} bytes, wanted at least {bytes}", output.len()))?;
    }
    if let Some(wanted) = &expect.sha256 {
        let digest: String = Sha256::digest(output).iter().map(|byte| format!("{byte:02x}")).collect();
        require(digest == *wanted, &|| format!("SHA-256 {digest}, wanted {wanted}"))?;
    }
    for pattern in &expect.regex {
        let regex = regex::bytes::RegexBuilder::new(pattern).dot_matches_new_line(true).build();
        let found = regex.map_err(|error| error.to_string())?.is_match(output);
        require(found, &|| format!("{pattern:?} does not match {}", shown()))?;
    }
    for (text, wanted) in &expect.count {
        let times = count(output, text);
        require(times == *wanted, &|| format!("{text:?} is there {times} times, wanted {wanted}"))?;
    }
    let mut rest = output;
    for text in &expect.ordered {
        let Some(at) = find(rest, text.as_bytes()) else {
            return Err(format!("{text:?} is not where it belongs in {}", shown()));
        };
        rest = &rest[at + text.len()..];
    }
    Ok(())
}

/// Where bytes begin in others.
pub(crate) fn find(output: &[u8], wanted: &[u8]) -> Option<usize> {
    if wanted.is_empty() {
        return Some(0);
    }
    output.windows(wanted.len()).position(|window| window == wanted)
}

fn count(output: &[u8], text: &str) -> usize {
    let (mut rest, mut times) = (output, 0);
    while let Some(at) = find(rest, text.as_bytes()) {
        times += 1;
        rest = rest.get(at + text.len().max(1)..).unwrap_or_default();
    }
    times
}
