//! Trace context (W3C) without a tracer: the trace that a caller names, or one that begins here.

use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderName};
use sha2::{Digest as _, Sha256};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The trace id of `version-trace-parent-flags`.
pub(super) fn of_caller(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(TRACEPARENT)?.to_str().ok()?;
    let mut parts = text.split('-');
    let (version, trace, parent) = (parts.next()?, parts.next()?, parts.next()?);
    let hex = |part: &str, len: usize| {
        part.len() == len && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let known = hex(version, 2) && version != "ff" && hex(trace, 32) && hex(parent, 16);
    (known && trace.bytes().any(|byte| byte != b'0')).then(|| trace.to_owned())
}

/// An id that no other call of this process has, nor one of another process by any likelihood.
pub(super) fn begun() -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let digest = Sha256::new()
        .chain_update(std::process::id().to_be_bytes())
        .chain_update(std::ptr::from_ref(&CALLS).addr().to_be_bytes())
        .chain_update(call.to_be_bytes())
        .finalize();
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_taken_from_its_caller_or_begun() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(TRACEPARENT, text.parse().unwrap());
            of_caller(&headers)
        };
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(of(&format!("00-{trace}-00f067aa0ba902b7-01")).as_deref(), Some(trace));
        for wrong in [
            "",
            "00",
            "00-xyz-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_ne!(begun(), begun());
    }
}
