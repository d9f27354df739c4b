//! When a question is asked, and which kinds of questions may be.

/// When a question is asked before or after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalPolicy {
    /// Nobody is asked; what would need an answer is refused.
    Never,
    /// The caller asks for escalation when it wants one.
    OnRequest,
    /// Whatever no rule allows is asked for.
    UnlessTrusted,
    /// Kinds of questions, one by one.
    Granular(Granular),
}

/// Which kinds of questions may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Granular {
    /// Questions that a rule prompts.
    pub rules: bool,
    /// Questions about running without a sandbox.
    pub sandbox_approval: bool,
    /// Questions about connections.
    pub network: bool,
    /// Questions about input to a live process.
    pub stdin: bool,
}

impl ApprovalPolicy {
    /// Whether everything that runs, or may be asked for, under this policy is so under `bound`. To ask nobody is no
    /// narrowing of asking about everything.
    pub(super) fn within(&self, bound: &Self) -> bool {
        match (self, bound) {
            (Self::Never, Self::Never | Self::OnRequest | Self::Granular(_)) => true,
            (Self::UnlessTrusted, Self::UnlessTrusted | Self::OnRequest) => true,
            (Self::OnRequest, Self::OnRequest) => true,
            (Self::Granular(_), Self::OnRequest) => true,
            (Self::Granular(asked), Self::Granular(bound)) => {
                (!asked.rules || bound.rules)
                    && (!asked.sandbox_approval || bound.sandbox_approval)
                    && (!asked.network || bound.network)
                    && (!asked.stdin || bound.stdin)
            }
            (Self::Never, Self::UnlessTrusted)
            | (Self::UnlessTrusted | Self::OnRequest | Self::Granular(_), _) => false,
        }
    }
}
