//! The cases that cannot be played, each with its reason. Everything else is played, also where a case says more about
//! approvals or a sandbox: its unsandboxed expectation holds here.

/// Cases that need what the service does not have yet. None: where a case also speaks of a sandbox or of approvals
/// (K04, L06 to L09, L14 to L16, Q02, Q03), what it says of the bare program is played, and what it says of those stands in
/// [`crate::service`].
pub(crate) const NOT_YET: [(&str, &str); 0] = [];

/// Why a case is not played.
pub(crate) fn reason(id: &str) -> Option<&'static str> {
    NOT_YET.iter().find(|(name, _)| *name == id).map(|(_, reason)| *reason)
}
