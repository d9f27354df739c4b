//! TLS, with and without certificates of clients.

use std::net::SocketAddr;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use unified_exec::grpc::server::Edge;
use unified_exec::grpc::tls::{Tls, TlsError};

use crate::support::{PATIENCE, edge, list, plain, token, tokens};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// Certificate and key of `name`.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

async fn serve(edge: &Edge, tls: &Tls) -> SocketAddr {
    // Every address: with TLS that is allowed.
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    edge.serve_tcp(listener, tokens(), Some(tls)).unwrap();
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn client(address: SocketAddr, config: ClientTlsConfig) -> Channel {
    let endpoint = Endpoint::from_shared(format!("https://{address}")).unwrap();
    endpoint.tls_config(config.domain_name("localhost")).unwrap().connect_lazy()
}

fn trusting(authority: &Authority) -> ClientTlsConfig {
    ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority.pem()))
}

async fn list_as_agent(channel: Channel) -> Result<usize, tonic::Status> {
    let token = format!("Bearer {}", token("a").expose());
    timeout(PATIENCE, list(channel, &[("authorization", &token)])).await.unwrap()
}

#[tokio::test]
async fn tls_serves_whoever_has_a_token_and_plaintext_harms_nothing() {
    let edge = edge();
    let authority = Authority::new();
    let (certificate, key) = authority.issue("localhost");
    let tls = Tls::from_pem(certificate.as_bytes(), key.as_bytes(), None).unwrap();
    let address = serve(&edge, &tls).await;
    assert_eq!(list_as_agent(client(address, trusting(&authority))).await.unwrap(), 0);

    list_as_agent(plain(address)).await.unwrap_err();
    let mut raw = TcpStream::connect(address).await.unwrap();
    raw.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // Closed, with or without a TLS alert, rather than left hanging.
    timeout(PATIENCE, raw.read_to_end(&mut answer)).await.unwrap().ok();
    list_as_agent(client(address, trusting(&Authority::new()))).await.unwrap_err();

    assert_eq!(list_as_agent(client(address, trusting(&authority))).await.unwrap(), 0);
}

#[tokio::test]
async fn a_silent_client_keeps_nobody_else_from_its_handshake() {
    let edge = edge();
    let authority = Authority::new();
    let (certificate, key) = authority.issue("localhost");
    let tls = Tls::from_pem(certificate.as_bytes(), key.as_bytes(), None).unwrap();
    let address = serve(&edge, &tls).await;
    let _silent = TcpStream::connect(address).await.unwrap();
    assert_eq!(list_as_agent(client(address, trusting(&authority))).await.unwrap(), 0);
}

#[tokio::test]
async fn with_an_authority_for_clients_a_client_needs_its_certificate_and_its_token() {
    let edge = edge();
    let authority = Authority::new();
    let (certificate, key) = authority.issue("localhost");
    let tls =
        Tls::from_pem(certificate.as_bytes(), key.as_bytes(), Some(authority.pem().as_bytes())).unwrap();
    let address = serve(&edge, &tls).await;
    let identity = |authority: &Authority| {
        let (certificate, key) = authority.issue("client");
        Identity::from_pem(certificate, key)
    };
    list_as_agent(client(address, trusting(&authority))).await.unwrap_err();
    let foreign = trusting(&authority).identity(identity(&Authority::new()));
    list_as_agent(client(address, foreign)).await.unwrap_err();
    let known = client(address, trusting(&authority).identity(identity(&authority)));
    let refused = list(known.clone(), &[]).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);
    assert_eq!(list_as_agent(known).await.unwrap(), 0);
}

#[test]
fn unusable_files_are_named() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue("localhost");
    let (_, other_key) = authority.issue("localhost");
    let from = |certificate: &str, key: &str| Tls::from_pem(certificate.as_bytes(), key.as_bytes(), None);
    assert!(matches!(from("", &key), Err(TlsError::NotPem { what: "certificate", .. })));
    assert!(matches!(from(&certificate, "nonsense"), Err(TlsError::NotPem { what: "private key", .. })));
    assert!(matches!(from(&certificate, &other_key), Err(TlsError::Identity(_))));
    let missing = Tls::from_files("/nonexistent/cert.pem".as_ref(), "/nonexistent/key.pem".as_ref(), None);
    assert!(missing.unwrap_err().to_string().contains("/nonexistent/cert.pem"));
}
