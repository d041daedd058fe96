//! An OpenAI-compatible endpoint: one chat completion per call, over http or https.

use std::{env, io, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, StatusCode, Uri, header};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use serde::{Deserialize, Serialize};

use super::prompt::{self, NotAList};
use crate::http::Issue;

/// As long as the `OpenAI` SDKs wait: `DEFAULT_TIMEOUT` of openai-python, 10 minutes.
const CALL_TIMEOUT: Duration = Duration::from_mins(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A list of issues is kilobytes.
const LONGEST_ANSWER: usize = 16 << 20;
const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

/// Which endpoint, which model.
#[derive(Clone)]
pub struct OpenAiConfig {
    /// With the version, as the SDKs have it: `https://api.openai.com/v1`.
    pub base_url: String,
    /// Sent as bearer token where there is one.
    pub api_key: Option<String>,
    /// The model's name there.
    pub model: String,
}

/// An endpoint that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// Nothing says which model.
    #[error(
        "no model: set OPENAI_MODEL to a model of your endpoint, and OPENAI_BASE_URL where it is \
         not {DEFAULT_BASE_URL}; or give --script FILE"
    )]
    NoModel,
    /// The public endpoint answers nobody without one.
    #[error(
        "no key: {DEFAULT_BASE_URL} needs OPENAI_API_KEY; or set OPENAI_BASE_URL to another endpoint"
    )]
    NoKey,
    /// A base URL that is none.
    #[error(
        "OPENAI_BASE_URL {0:?} is not a http or https URL with a host, such as {DEFAULT_BASE_URL}"
    )]
    BaseUrl(String),
    /// A key that can't be in a header.
    #[error("OPENAI_API_KEY has characters that a header can't carry (a line end?)")]
    Key,
    /// https without trusted certificates.
    #[error(
        "can't read this system's trusted certificates for https: {0}; install ca-certificates or \
         set SSL_CERT_FILE"
    )]
    Roots(#[source] io::Error),
}

/// A call that gave no list.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The endpoint can't be reached, or the exchange broke.
    #[error("the call to {url} failed: {cause}")]
    Exchange {
        /// Whom.
        url: String,
        /// The whole chain of causes.
        cause: String,
    },
    /// No answer in time.
    #[error("{url} gave no answer in {}s", CALL_TIMEOUT.as_secs())]
    TimedOut {
        /// Whom.
        url: String,
    },
    /// Any status but 2xx.
    #[error("{url} answered {status}: {message}")]
    Status {
        /// Whom.
        url: String,
        /// Its status.
        status: StatusCode,
        /// Its own words, or the beginning of its answer.
        message: String,
    },
    /// Something that is no chat completion.
    #[error("{url} answered with something that is no chat completion ({reason}): {excerpt:?}")]
    NotACompletion {
        /// Whom.
        url: String,
        /// What is missing.
        reason: String,
        /// The beginning of the answer.
        excerpt: String,
    },
    /// The answer was cut.
    #[error("the model's answer was cut at the endpoint's token limit (finish_reason length)")]
    Cut,
    /// The answer holds no list.
    #[error(transparent)]
    NotAList(#[from] NotAList),
}

impl OpenAiConfig {
    /// From `OPENAI_BASE_URL`, `OPENAI_API_KEY` and `OPENAI_MODEL`.
    ///
    /// # Errors
    /// No model is named, or no key where one is needed.
    pub fn from_env() -> Result<Self, EndpointError> {
        let var = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let (base_url, api_key) = (var("OPENAI_BASE_URL"), var("OPENAI_API_KEY"));
        let model = var("OPENAI_MODEL").ok_or(EndpointError::NoModel)?;
        if base_url.is_none() && api_key.is_none() {
            return Err(EndpointError::NoKey);
        }
        Ok(Self { base_url: base_url.unwrap_or_else(|| DEFAULT_BASE_URL.into()), api_key, model })
    }
}

/// The client of one endpoint; it reuses connections.
#[derive(Debug)]
pub(super) struct OpenAi {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: Uri,
    authorization: Option<header::HeaderValue>,
    model: String,
}

#[derive(Serialize)]
struct Completion<'a> {
    model: &'a str,
    messages: [Message<'a>; 2],
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'a str,
    content: &'a str,
}

impl OpenAi {
    pub(super) fn new(config: &OpenAiConfig) -> Result<Self, EndpointError> {
        let bad_url = || EndpointError::BaseUrl(config.base_url.clone());
        let url: Uri = format!("{}/chat/completions", config.base_url.trim_end_matches('/'))
            .parse()
            .map_err(|_| bad_url())?;
        let https = match url.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(bad_url()),
        };
        let authorization = config.api_key.as_ref().map(|key| bearer(key)).transpose()?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(connector(https)?);
        Ok(Self { client, url, authorization, model: config.model.clone() })
    }

    /// One call: a question in, a list out.
    pub(super) async fn ask(&self, question: &str) -> Result<Vec<Issue>, CallError> {
        let timed_out = |_| CallError::TimedOut { url: self.url.to_string() };
        let (status, body) = tokio::time::timeout(CALL_TIMEOUT, self.exchange(question))
            .await
            .map_err(timed_out)??;
        if !status.is_success() {
            let message = error_message(&body);
            return Err(CallError::Status { url: self.url.to_string(), status, message });
        }
        Ok(prompt::parse_list(&self.content(&body)?)?)
    }

    async fn exchange(&self, question: &str) -> Result<(StatusCode, Bytes), CallError> {
        let completion = Completion {
            model: &self.model,
            messages: [
                Message { role: "system", content: prompt::SYSTEM },
                Message { role: "user", content: question },
            ],
        };
        let failed = |cause: String| CallError::Exchange { url: self.url.to_string(), cause };
        let body = serde_json::to_vec(&completion).map_err(|error| failed(error.to_string()))?;
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&self.url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, concat!("stillopen/", env!("CARGO_PKG_VERSION")));
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request.body(Full::from(body)).map_err(|error| failed(error.to_string()))?;
        let response = self.client.request(request).await.map_err(|error| failed(chain(&error)))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LONGEST_ANSWER)
            .collect()
            .await
            .map_err(|error| failed(chain(&*error)))?;
        Ok((status, body.to_bytes()))
    }

    /// The text of a chat completion.
    fn content(&self, body: &[u8]) -> Result<String, CallError> {
        #[derive(Deserialize)]
        struct Completed {
            choices: Vec<Choice>,
        }
        #[derive(Deserialize)]
        struct Choice {
            message: Said,
            finish_reason: Option<String>,
        }
        #[derive(Deserialize)]
        struct Said {
            content: Option<String>,
            refusal: Option<String>,
        }
        let fail = |reason: String| CallError::NotACompletion {
            url: self.url.to_string(),
            reason,
            excerpt: prompt::excerpt(&String::from_utf8_lossy(body)),
        };
        let completed: Completed =
            serde_json::from_slice(body).map_err(|error| fail(error.to_string()))?;
        let choice =
            completed.choices.into_iter().next().ok_or_else(|| fail("no choices".into()))?;
        if choice.finish_reason.as_deref() == Some("length") {
            return Err(CallError::Cut);
        }
        if let Some(refusal) = choice.message.refusal {
            return Err(fail(format!("refused: {refusal}")));
        }
        choice.message.content.ok_or_else(|| fail("no content".into()))
    }
}

/// Plain TCP or TLS by the URL's scheme; with keepalive 60/30/3, because a model that thinks is silent.
fn connector(https: bool) -> Result<HttpsConnector<HttpConnector>, EndpointError> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_keepalive(Some(Duration::from_mins(1)));
    http.set_keepalive_interval(Some(Duration::from_secs(30)));
    http.set_keepalive_retries(Some(3));
    let builder = HttpsConnectorBuilder::new();
    let builder = if https {
        builder
            .with_provider_and_native_roots(ring::default_provider())
            .map_err(EndpointError::Roots)?
    } else {
        // Never used: certificates are read only where they are needed.
        let provider = ring::default_provider().into();
        let versions = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| EndpointError::Roots(io::Error::other(error)))?;
        builder.with_tls_config(
            versions.with_root_certificates(RootCertStore::empty()).with_no_client_auth(),
        )
    };
    Ok(builder.https_or_http().enable_http1().wrap_connector(http))
}

fn bearer(key: &str) -> Result<header::HeaderValue, EndpointError> {
    let mut value =
        header::HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| EndpointError::Key)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The endpoint's own words: `{"error": {"message": "…"}}`, or the beginning of what it said.
fn error_message(body: &[u8]) -> String {
    let json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let message = json["error"]["message"].as_str().or(json["error"].as_str());
    message.map_or_else(|| prompt::excerpt(&String::from_utf8_lossy(body)), prompt::excerpt)
}

/// An error and all of its causes: hyper's own words say little.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(base_url: &str, key: &str) -> Result<OpenAi, EndpointError> {
        OpenAi::new(&OpenAiConfig {
            base_url: base_url.into(),
            api_key: Some(key.into()),
            model: "m".into(),
        })
    }

    #[test]
    fn the_path_is_under_the_base_url() {
        for base in ["http://127.0.0.1:1/v1", "http://127.0.0.1:1/v1/"] {
            assert_eq!(endpoint(base, "k").unwrap().url, "http://127.0.0.1:1/v1/chat/completions");
        }
    }

    #[test]
    fn an_endpoint_that_is_none_is_named() {
        for bad in ["", "127.0.0.1:8080/v1", "ftp://example.net/v1", "/v1"] {
            assert!(matches!(endpoint(bad, "k"), Err(EndpointError::BaseUrl(_))), "{bad}");
        }
        assert!(matches!(endpoint("http://[::1]/v1", "k\n"), Err(EndpointError::Key)));
    }

    #[test]
    fn what_is_no_completion_is_named() {
        let endpoint = endpoint("http://[::1]/v1", "k").unwrap();
        for (body, part) in [
            ("<html>", "no chat completion"),
            (r#"{"choices":[]}"#, "no choices"),
            (r#"{"choices":[{"message":{"content":null}}]}"#, "no content"),
            (r#"{"choices":[{"message":{"content":null,"refusal":"no"}}]}"#, "refused: no"),
            (
                r#"{"choices":[{"message":{"content":"["},"finish_reason":"length"}]}"#,
                "token limit",
            ),
        ] {
            let error = endpoint.content(body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(part), "{body}: {error}");
        }
    }

    #[test]
    fn the_endpoints_own_words_are_kept() {
        assert_eq!(error_message(br#"{"error":{"message":"quota"}}"#), "quota");
        assert_eq!(error_message(br#"{"error":"quota"}"#), "quota");
        assert_eq!(error_message(b"upstream gone"), "upstream gone");
    }
}
