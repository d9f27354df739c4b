//! The methods of the contract: what spans and metrics may be called by, whatever clients ask for.

use std::collections::BTreeSet;
use std::sync::Arc;

use prost::Message as _;
use prost_types::FileDescriptorSet;

use crate::grpc::pb;

/// What a method is called that the contract does not have.
pub(super) const OTHER: &str = "_OTHER";

/// Full names of methods, `package.Service/Method`, each known for as long as the program runs.
#[derive(Debug)]
pub(in crate::grpc) struct Methods(BTreeSet<&'static str>);

impl Methods {
    /// Those of the contract.
    pub(in crate::grpc) fn of_contract() -> Arc<Self> {
        use std::sync::OnceLock;
        static METHODS: OnceLock<Arc<Methods>> = OnceLock::new();
        Arc::clone(METHODS.get_or_init(|| {
            // The descriptors are compiled in, and every test of reflection reads them.
            let set = FileDescriptorSet::decode(pb::DESCRIPTORS).unwrap_or_default();
            let names = set.file.iter().flat_map(|file| {
                file.service.iter().flat_map(|service| {
                    service
                        .method
                        .iter()
                        .map(|method| format!("{}.{}/{}", file.package(), service.name(), method.name()))
                })
            });
            Arc::new(Self(names.map(|name| &*name.leak()).collect()))
        }))
    }

    /// The method that a path names.
    pub(super) fn known(&self, path: &str) -> &'static str {
        self.0.get(path.trim_start_matches('/')).copied().unwrap_or(OTHER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_one_of_the_contract_or_other() {
        let methods = Methods::of_contract();
        let known = "unified_exec.v1.ExecService/ExecCommand";
        assert_eq!(methods.known(&format!("/{known}")), known);
        for strange in ["/unified_exec.v1.ExecService/Strange", "/", "", "/a/b"] {
            assert_eq!(methods.known(strange), OTHER);
        }
    }
}
