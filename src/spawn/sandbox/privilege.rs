//! Gives up capabilities, where no bwrap does: with them root would get around Landlock, by devices of its own making or by
//! looking into processes. Called by the launcher.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities,
};

/// What root keeps: it writes the files of others, as it is used to.
const KEPT: CapabilitySet = CapabilitySet::DAC_OVERRIDE;

/// Gives up everything else for ever. The error is a sentence.
pub(in crate::spawn) fn give_up() -> Result<(), String> {
    let failed = |errno: Errno| format!("capabilities cannot be given up: {errno}");
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        for bit in 0..u64::BITS {
            let capability = CapabilitySet::from_bits_retain(1 << bit);
            if capability == KEPT {
                continue;
            }
            match remove_capability_from_bounding_set(capability) {
                Ok(()) => {}
                // The kernel has no more.
                Err(Errno::INVAL) => break,
                Err(errno) => return Err(failed(errno)),
            }
        }
    }
    let kept = if is_root { KEPT } else { CapabilitySet::empty() };
    // A service that was given some for its own needs hands none of them on.
    clear_ambient_capability_set().map_err(failed)?;
    set_capabilities(
        None,
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() },
    )
    .map_err(failed)
}
