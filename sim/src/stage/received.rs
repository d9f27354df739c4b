//! Whether a caller was given what the child said: every byte once, in order, and gaps that are told.

use bytes::Bytes;
use unified_exec::core::ids::ProcessId;

/// The output that one call was given, attempt by attempt.
#[derive(Debug, Default)]
pub(crate) struct Received {
    call: String,
    pub(crate) process: Option<ProcessId>,
    parts: Vec<Part>,
    /// The answer's attempt and range.
    answer: Option<(u8, u64, u64)>,
}

#[derive(Debug)]
struct Part {
    attempt: u8,
    from: u64,
    /// Absent is a gap.
    bytes: Option<Bytes>,
    to: u64,
}

impl Received {
    pub(crate) fn of(call: String) -> Self {
        Self { call, ..Self::default() }
    }

    pub(crate) fn piece(&mut self, attempt: u8, from: u64, bytes: Bytes) {
        let to = from + bytes.len() as u64;
        self.parts.push(Part { attempt, from, bytes: Some(bytes), to });
    }

    pub(crate) fn gap(&mut self, attempt: u8, from: u64, to: u64) {
        self.parts.push(Part { attempt, from, bytes: None, to });
    }

    pub(crate) fn answered(&mut self, process: Option<ProcessId>, attempt: u8, from: u64, to: u64) {
        self.process = process;
        self.answer = Some((attempt, from, to));
    }

    /// What is wrong with it; `said` tells what an attempt of a process said.
    pub(crate) fn check(&self, said: impl Fn(ProcessId, u8) -> Option<Vec<u8>>) -> Vec<String> {
        let mut broken = Vec::new();
        let mut fail = |what: String| broken.push(format!("output of call {:?}: {what}", self.call));
        for pair in self.parts.windows(2) {
            let [before, after] = pair else { continue };
            if before.attempt == after.attempt && before.to != after.from {
                fail(format!("bytes at {} after bytes up to {}", after.from, before.to));
            }
            if before.attempt > after.attempt {
                fail(format!("attempt {} after attempt {}", after.attempt, before.attempt));
            }
        }
        for part in &self.parts {
            let (Some(process), Some(bytes)) = (self.process, &part.bytes) else { continue };
            let all = said(process, part.attempt).unwrap_or_default();
            let range = usize::try_from(part.from).ok().zip(usize::try_from(part.to).ok());
            if range.and_then(|(from, to)| all.get(from..to)) != Some(bytes) {
                fail(format!("attempt {} did not say what came at {}..{}", part.attempt, part.from, part.to));
            }
        }
        if let Some((attempt, from, to)) = self.answer {
            let mut of_answer = self.parts.iter().filter(|part| part.attempt == attempt);
            let first = of_answer.next().map_or(from, |part| part.from);
            let last = self.parts.iter().rfind(|part| part.attempt == attempt).map_or(from, |part| part.to);
            if (first, last) != (from, to) {
                fail(format!("{first}..{last} came, and the answer says {from}..{to}"));
            }
        }
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(parts: &[(u8, u64, &'static str)], answer: Option<(u8, u64, u64)>) -> Vec<String> {
        let process = ProcessId::new(1000).unwrap();
        let mut received = Received { process: Some(process), ..Received::default() };
        for (attempt, from, text) in parts {
            received.piece(*attempt, *from, Bytes::from_static(text.as_bytes()));
        }
        if let Some((attempt, from, to)) = answer {
            received.answered(Some(process), attempt, from, to);
        }
        received.check(|_, attempt| Some(if attempt == 1 { b"denied".to_vec() } else { b"done".to_vec() }))
    }

    #[test]
    fn every_byte_comes_once_in_order_and_up_to_the_answer() {
        assert!(received(&[(1, 0, "den"), (1, 3, "ied"), (2, 0, "done")], Some((2, 0, 4))).is_empty());
        assert!(received(&[], Some((2, 4, 4))).is_empty());
        for wrong in [
            received(&[(1, 0, "den"), (1, 4, "ed")], None),
            received(&[(1, 0, "den"), (1, 2, "nied")], None),
            received(&[(1, 0, "din")], None),
            received(&[(1, 3, "iedx")], None),
            received(&[(2, 0, "done"), (1, 0, "denied")], None),
            received(&[(2, 0, "don")], Some((2, 0, 4))),
            received(&[], Some((2, 0, 4))),
        ] {
            assert!(!wrong.is_empty());
        }
    }
}
