//! Children under the real sandbox: what they cannot do, and what ordinary tools still can.
