//! TLS for addresses that others can reach: rustls, from PEM.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

/// What gRPC speaks inside of TLS.
const ALPN_HTTP2: &[u8] = b"h2";

/// A server's certificate and key, and the authority of its clients, if they must show certificates.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(…)")
    }
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A text is not PEM of the kind wanted.
    #[error("no PEM {what} found")]
    NotPem {
        /// What was looked for.
        what: &'static str,
        /// Why.
        source: pem::Error,
    },
    /// Certificate and key do not go together, or are not usable.
    #[error("the server's certificate and key cannot be used")]
    Identity(#[source] rustls::Error),
    /// The authority of the clients is not usable.
    #[error("the certificate authority of the clients cannot be used")]
    ClientAuthority(#[source] VerifierBuilderError),
}

impl Tls {
    /// From files.
    pub fn from_files(
        certificate: &Path,
        key: &Path,
        client_authority: Option<&Path>,
    ) -> Result<Self, TlsError> {
        let client_authority = client_authority.map(read).transpose()?;
        Self::from_pem(&read(certificate)?, &read(key)?, client_authority.as_deref())
    }

    /// From PEM: the certificate with its chain, its key, and the authority that clients' certificates must come from.
    pub fn from_pem(
        certificate: &[u8],
        key: &[u8],
        client_authority: Option<&[u8]>,
    ) -> Result<Self, TlsError> {
        let chain = certificates(certificate, "certificate")?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|source| TlsError::NotPem { what: "private key", source })?;
        // Named rather than taken from the process: a default provider is global, and some library may set another.
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Identity)?;
        let builder = match client_authority {
            None => builder.with_no_client_auth(),
            Some(authority) => builder.with_client_cert_verifier(client_verifier(authority, provider)?),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(TlsError::Identity)?;
        config.alpn_protocols = vec![ALPN_HTTP2.to_vec()];
        Ok(Self(Arc::new(config)))
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0))
    }
}

fn client_verifier(
    authority: &[u8],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authority, "certificate of the clients' authority")? {
        roots.add(certificate).map_err(TlsError::Identity)?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(TlsError::ClientAuthority)
}

fn certificates(text: &[u8], what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => {
            Err(TlsError::NotPem { what, source: pem::Error::NoItemsFound })
        }
        found => found.map_err(|source| TlsError::NotPem { what, source }),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })
}
