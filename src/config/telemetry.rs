//! `[telemetry]`: traces and metrics.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, de};

use super::bounded::Bounded;
use crate::telemetry::{Options, Protocol};

/// An export that takes longer is dropped.
const TIMEOUT_MS: u64 = 5_000;
/// Between two pushes of measurements, as OpenTelemetry has it.
const INTERVAL_MS: u64 = 60_000;

/// What is told of the service while it runs, and to whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// Where OTLP goes, such as `http://127.0.0.1:4317`; absent is nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp_endpoint: Option<String>,
    /// How OTLP is spoken.
    pub otlp_protocol: OtlpProtocol,
    /// Longest time that one export may take, milliseconds.
    pub otlp_timeout_ms: Bounded<100, 60_000>,
    /// Between two pushes of measurements, milliseconds.
    pub metrics_interval_ms: Bounded<1_000, 3_600_000>,
    /// Which part of the traces that begin here is kept; a caller's own decision is followed.
    pub sample_ratio: Ratio,
    /// Where Prometheus finds its page; absent is nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<SocketAddr>,
    /// What this server is called.
    pub service_name: String,
}

/// How OTLP is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OtlpProtocol {
    /// gRPC, usually at port 4317.
    Grpc,
    /// Protobuf over HTTP, usually at port 4318.
    Http,
}

/// From 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio(f64);

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        if (0.0..=1.0).contains(&number) {
            Ok(Self(number))
        } else {
            Err(de::Error::custom(format!("{number} is outside 0..=1")))
        }
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            otlp_endpoint: None,
            otlp_protocol: OtlpProtocol::Grpc,
            otlp_timeout_ms: Bounded::clamped(TIMEOUT_MS),
            metrics_interval_ms: Bounded::clamped(INTERVAL_MS),
            sample_ratio: Ratio(1.0),
            prometheus: None,
            service_name: "unified-exec".to_owned(),
        }
    }
}

impl Telemetry {
    /// What is exported; `None` if nobody wants any of it.
    pub fn options(&self) -> Option<Options> {
        let wanted = self.otlp_endpoint.is_some() || self.prometheus.is_some();
        wanted.then(|| Options {
            endpoint: self.otlp_endpoint.clone(),
            protocol: match self.otlp_protocol {
                OtlpProtocol::Grpc => Protocol::Grpc,
                OtlpProtocol::Http => Protocol::Http,
            },
            timeout: Duration::from_millis(self.otlp_timeout_ms.get()),
            sample_ratio: self.sample_ratio.0,
            interval: Duration::from_millis(self.metrics_interval_ms.get()),
            service_name: self.service_name.clone(),
            page: self.prometheus.is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_told_to_anybody_unless_it_is_asked_for() {
        assert!(Telemetry::default().options().is_none());
        let page: Telemetry = toml::from_str("prometheus = '127.0.0.1:9464'").unwrap();
        let options = page.options().unwrap();
        assert!(options.page && options.endpoint.is_none());
    }

    #[test]
    fn a_ratio_is_between_nothing_and_everything() {
        for wrong in ["-0.1", "1.1", "nan"] {
            let error = toml::from_str::<Telemetry>(&format!("sample_ratio = {wrong}")).unwrap_err();
            assert!(error.to_string().contains("outside 0..=1"), "{error}");
        }
        assert_eq!(toml::from_str::<Telemetry>("sample_ratio = 0.25").unwrap().sample_ratio, Ratio(0.25));
    }
}
