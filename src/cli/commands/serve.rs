//! `uexec serve`: the service, until somebody ends it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use crate::audit::{AuditLog, OpenError};
use crate::cli::args::Global;
use crate::cli::compose::{self, Purpose};
use crate::cli::failure::Failure;
use crate::cli::signals::{Heard, Signals};
use crate::cli::{exit, json, logging, output};
use crate::config::{Config, Format, Grant, Tls};
use crate::grpc::auth::{Caller, Role, Tokens, own_owner};
use crate::grpc::listen::{ListenError, RuntimeDirectory};
use crate::grpc::server::Edge;
use crate::grpc::tls;
use crate::host::clock::Clock;
use crate::telemetry::{Exporters, MetricsPage, Observability};

/// Run the server, until SIGTERM or Ctrl-C
#[derive(Debug, clap::Args)]
#[command(after_long_help = LONG_HELP)]
pub(crate) struct Args {
    /// The configuration file
    #[arg(long, env = "UEXEC_CONFIG", value_name = "FILE", hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,
    /// Listen on this TCP address too; one that others can reach needs TLS
    #[arg(long, env = "UEXEC_LISTEN", value_name = "ADDR:PORT", hide_env_values = true)]
    listen: Option<SocketAddr>,
    /// Certificate chain (PEM) for the TCP address
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Ask clients for certificates that these (PEM) have signed
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,
    /// Give sessions full access without questions, unless they ask for less
    #[arg(long)]
    allow_full_access: bool,
    /// Send traces and metrics there by OTLP, such as http://127.0.0.1:4317
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL", hide_env_values = true)]
    otlp: Option<String>,
    /// Show metrics to Prometheus on this address
    #[arg(long, env = "UEXEC_METRICS", value_name = "ADDR:PORT", hide_env_values = true)]
    metrics: Option<SocketAddr>,
    /// What to log: a level, or directives such as info,unified_exec::spawn=debug
    #[arg(long, env = "UEXEC_LOG", value_name = "FILTER", hide_env_values = true)]
    log: Option<String>,
    /// How to log
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
}

const LONG_HELP: &str = "\
Without options it listens on two Unix sockets in the runtime directory (mode 0700): agent.sock for those who run
commands, reviewer.sock for those who decide about them. A TCP address needs a bearer token from agent.token or
reviewer.token there.

Flags win over the environment, that over the configuration file; `uexec config show` prints the result. The first
SIGTERM or Ctrl-C drains: nothing new starts, streams are told, every process goes through the kill ladder. A second
one does not wait for that.";

/// Form of log lines.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

impl Args {
    /// The configuration in force: file, then environment and flags.
    pub(crate) fn configuration(&self, global: &Global) -> Result<Config, Failure> {
        let mut config = match &self.config {
            Some(file) => super::config::load(file)?,
            None => Config::default(),
        };
        if let Some(dir) = &global.runtime_dir {
            config.listen.runtime_dir = Some(dir.clone());
        }
        if let Some(address) = self.listen {
            config.listen.tcp = Some(address);
        }
        if let (Some(cert), Some(key)) = (self.tls_cert.clone(), self.tls_key.clone()) {
            config.listen.tls = Some(Tls { cert, key, client_ca: self.client_ca.clone() });
        }
        if config.listen.tls.is_some() && config.listen.tcp.is_none() {
            return Err(Failure::usage("`listen.tls`: a certificate without an address to use it on")
                .hint("add --listen ADDR:PORT or `listen.tcp`; Unix sockets need no TLS"));
        }
        if self.allow_full_access {
            config.rights.default = Grant::unrestricted();
            config.rights.agent = Some(Grant::everything());
            config.rights.ceiling = Grant::everything();
        }
        if let Some(endpoint) = &self.otlp {
            config.telemetry.otlp_endpoint = Some(endpoint.clone());
        }
        if let Some(address) = self.metrics {
            config.telemetry.prometheus = Some(address);
        }
        if let Some(filter) = &self.log {
            config.logging.filter.clone_from(filter);
        }
        if let Some(format) = self.log_format {
            config.logging.format = match format {
                LogFormat::Text => Format::Text,
                LogFormat::Json => Format::Json,
            };
        }
        Ok(config)
    }
}

/// Serves.
pub(crate) async fn run(global: &Global, config: Config) -> Result<u8, Failure> {
    let exporters = exporters(&config)?;
    let _log = logging::start(&config.logging, exporters.as_deref().and_then(Exporters::tracer))?;
    // Before anybody can find us: whoever reads where we listen may end us at once.
    let mut signals = Signals::listen()?;
    let directory =
        RuntimeDirectory::open(&config.listen.runtime_dir.clone().unwrap_or_else(|| global.runtime_dir()))
            .map_err(cannot_listen)?;
    let audit = audit(&config, directory.path())?;
    let mut hidden = vec![directory.path().to_owned()];
    hidden.extend(config.audit.options(directory.path()).map(|options| options.directory));
    let telemetry = exporters.as_deref().map(Observability::new);
    let edge = compose::edge(&config, Purpose::Others { hidden, audit: audit.clone(), telemetry })?;
    let places = listen(&edge, &config, &directory, exporters.as_deref()).await;
    let places = match places {
        Ok(places) => places,
        Err(failure) => {
            edge.shutdown().await;
            if let Some(audit) = audit {
                audit.flush().await;
            }
            return Err(failure);
        }
    };
    if let Err(failure) = places.print(global.json) {
        // Somebody has read enough; others may still come.
        tracing::warn!(?failure, "where we listen could not be told on stdout");
    }
    while signals.next().await == Heard::Quit {}
    tracing::info!("draining; a second signal does not wait");
    tokio::select! {
        complete = edge.shutdown() => tracing::info!(complete, "stopped"),
        () = again(&mut signals) => tracing::warn!("stopped without waiting"),
    }
    if let Some(audit) = audit {
        tokio::select! {
            () = audit.flush() => {}
            () = again(&mut signals) => tracing::warn!("the end of the audit log was not waited for"),
        }
    }
    if let Some(exporters) = exporters {
        // It blocks, and whoever it sends to may not answer.
        let last = tokio::task::spawn_blocking(move || exporters.shutdown(LAST_EXPORT));
        tokio::select! {
            _ = last => {}
            () = again(&mut signals) => {}
        }
    }
    Ok(exit::OK)
}

/// How long the end waits for the last spans and measurements to be taken.
const LAST_EXPORT: Duration = Duration::from_secs(2);

fn exporters(config: &Config) -> Result<Option<Arc<Exporters>>, Failure> {
    let Some(options) = config.telemetry.options() else { return Ok(None) };
    Exporters::start(&options).map(|exporters| Some(Arc::new(exporters))).map_err(|error| {
        Failure::usage(error.to_string()).hint("`telemetry.otlp_endpoint` is like http://127.0.0.1:4317")
    })
}

fn audit(config: &Config, runtime: &Path) -> Result<Option<AuditLog>, Failure> {
    let Some(options) = config.audit.options(runtime) else { return Ok(None) };
    let opened = AuditLog::open(options, Clock::start());
    opened.map(Some).map_err(|error| {
        let failure = Failure::new(format!("the audit log cannot be kept: {error}"));
        match error {
            OpenError::InUse { .. } => failure.hint(
                "that server is already listening; a second one needs a --runtime-dir, or an `audit.directory`, of its own",
            ),
            OpenError::Exposed { .. } | OpenError::Damaged { .. } | OpenError::System { .. } => failure,
        }
    })
}

async fn again(signals: &mut Signals) {
    while signals.next().await == Heard::Quit {}
}

/// Where we can be found.
#[derive(Debug)]
struct Places {
    sockets: Vec<PathBuf>,
    tcp: Option<String>,
    tokens: Vec<PathBuf>,
    metrics: Option<String>,
}

impl Places {
    /// Tells it on stdout, one place a line, when all of them can be reached.
    fn print(&self, as_json: bool) -> Result<(), Failure> {
        if as_json {
            return json::print_line(&serde_json::json!({
                "listening": {
                    "unix": self.sockets, "tcp": self.tcp, "tokens": self.tokens, "metrics": self.metrics,
                },
            }));
        }
        let line = |what: &str, place: &Path| format!("{what} {}\n", place.display());
        let mut text: String =
            self.sockets.iter().map(|socket| format!("listening on unix://{}\n", socket.display())).collect();
        text.extend(self.tcp.iter().map(|address| format!("listening on {address}\n")));
        text.extend(self.tokens.iter().map(|token| line("token in", token)));
        text.extend(self.metrics.iter().map(|address| format!("metrics at {address}\n")));
        output::print(&text)
    }
}

async fn listen(
    edge: &Edge,
    config: &Config,
    directory: &RuntimeDirectory,
    exporters: Option<&Exporters>,
) -> Result<Places, Failure> {
    let mut places = Places { sockets: Vec::new(), tcp: None, tokens: Vec::new(), metrics: None };
    // All are there before one of them serves.
    let roles = [Role::Agent, Role::Reviewer];
    let sockets: Vec<_> = roles
        .into_iter()
        .map(|role| directory.bind(role))
        .collect::<Result<_, _>>()
        .map_err(cannot_listen)?;
    if let Some(address) = config.listen.tcp {
        let mut tokens = Tokens::new();
        for role in roles {
            let token = directory.token(role).map_err(cannot_listen)?;
            tokens = tokens.with(&token, Caller { owner: own_owner(), role });
            places.tokens.push(directory.token_path(role));
        }
        let tls = config.listen.tls.as_ref().map(load_tls).transpose()?;
        let listener = TcpListener::bind(address).await.map_err(|error| {
            Failure::new(format!("cannot listen on {address}: {error}"))
                .hint("choose another address with --listen")
        })?;
        let bound = listener.local_addr()?;
        edge.serve_tcp(listener, tokens, tls.as_ref()).map_err(|error| {
            Failure::usage(error.to_string())
                .hint("give --tls-cert and --tls-key, or --listen 127.0.0.1:PORT")
        })?;
        places.tcp = Some(format!("{}://{bound}", if tls.is_some() { "https" } else { "http" }));
    }
    if let Some(address) = config.telemetry.prometheus
        && let Some(registry) = exporters.and_then(Exporters::registry)
    {
        let page = MetricsPage::bind(address, registry.clone())
            .await
            .map_err(|error| Failure::new(error.to_string()).hint("choose another address with --metrics"))?;
        places.metrics = Some(format!("http://{}/metrics", page.address()?));
        tokio::spawn(page.serve());
    }
    for socket in sockets {
        places.sockets.push(socket.path().to_owned());
        edge.serve_unix(socket);
    }
    Ok(places)
}

fn load_tls(files: &Tls) -> Result<tls::Tls, Failure> {
    tls::Tls::from_files(&files.cert, &files.key, files.client_ca.as_deref()).map_err(|error| {
        let source =
            std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
        Failure::usage(format!("TLS cannot be set up: {error}{source}"))
    })
}

fn cannot_listen(error: ListenError) -> Failure {
    let source = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
    let failure = Failure::new(format!("{error}{source}"));
    match error {
        ListenError::InUse { .. } => {
            failure.hint("`uexec ps` talks to that server; --runtime-dir DIR starts another")
        }
        _ => failure,
    }
}
