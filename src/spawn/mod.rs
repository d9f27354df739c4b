//! Adapters that start children.
