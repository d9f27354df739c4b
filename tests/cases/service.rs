//! What a script cannot say.
