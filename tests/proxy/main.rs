//! The proxy of sandboxed children against real clients and real origins.
