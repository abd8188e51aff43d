//! A fake API server: what a real `kubectl` asks for about pods, over loopback. Its pods outlive it.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{any, get};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::exec;
use super::pods::FakePods;
use super::schema;

/// The only namespace of the cluster.
pub(super) const NAMESPACE: &str = "agents";
/// The token in the kubeconfig. Without TLS, `kubectl` does not send it.
pub(super) const TOKEN: &str = "not-for-command-lines";

/// A running server. Dropping it cuts all its connections.
pub(super) struct FakeApiServer {
    runtime: Option<Runtime>,
}

impl FakeApiServer {
    pub(super) fn start(pods: &FakePods, address: SocketAddr) -> std::io::Result<(Self, SocketAddr)> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let app = router(pods.clone());
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, app).await.unwrap();
        });
        Ok((Self { runtime: Some(runtime) }, address))
    }
}

impl Drop for FakeApiServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}

fn router(pods: FakePods) -> Router {
    let version = json!({"major": "1", "minor": "32", "gitVersion": "v1.32.0", "platform": "linux/amd64"});
    let versions = json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []});
    let groups = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []});
    let resource = |name: &str, kind: &str, verbs: &[&str]| json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": verbs});
    let resources = json!({
        "kind": "APIResourceList", "groupVersion": "v1",
        "resources": [
            resource("pods", "Pod", &["create", "delete", "get", "list", "watch"]),
            resource("pods/exec", "PodExecOptions", &["create", "get"]),
            resource("pods/log", "Pod", &["get"]),
            {"name": "namespaces", "singularName": "", "namespaced": false, "kind": "Namespace", "verbs": ["get"]},
        ],
    });
    let fixed = |value: Value| get(move || std::future::ready(Json(value)));
    Router::new()
        .route("/version", fixed(version))
        .route("/api", fixed(versions))
        .route("/apis", fixed(groups))
        .route("/api/v1", fixed(resources))
        .route("/api/v1/namespaces/{namespace}", get(show_namespace))
        .route("/api/v1/namespaces/{namespace}/pods", get(list).post(create))
        .route("/api/v1/namespaces/{namespace}/pods/{name}", get(show).delete(delete))
        .route("/api/v1/namespaces/{namespace}/pods/{name}/log", get(log))
        .route("/api/v1/namespaces/{namespace}/pods/{name}/exec", any(exec::exec))
        .fallback(|| std::future::ready(failure(StatusCode::NOT_FOUND, "NotFound", "no such path")))
        .layer(middleware::from_fn_with_state(pods.clone(), admit))
        .with_state(pods)
}

/// The answer that `kubectl` shows as an error.
pub(super) fn failure(status: StatusCode, reason: &str, message: &str) -> Response {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "code": status.as_u16(),
    });
    (status, Json(body)).into_response()
}

pub(super) fn no_pod(name: &str) -> Response {
    failure(StatusCode::NOT_FOUND, "NotFound", &format!("pods \"{name}\" not found"))
}

fn no_namespace(name: &str) -> Response {
    failure(StatusCode::NOT_FOUND, "NotFound", &format!("namespaces \"{name}\" not found"))
}

/// Its id tells the cluster from others.
async fn show_namespace(State(pods): State<FakePods>, Path(namespace): Path<String>) -> Response {
    if namespace != NAMESPACE {
        return no_namespace(&namespace);
    }
    let metadata = json!({"name": namespace, "uid": pods.cluster()});
    let shown = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": metadata});
    Json(shown).into_response()
}

/// Checks what the user may do.
async fn admit(State(pods): State<FakePods>, request: Request, next: Next) -> Response {
    let is_create = request.method() == Method::POST && request.uri().path().ends_with("/pods");
    let path = request.uri().path();
    let verb = match request.method() {
        _ if is_create => "create",
        _ if path.ends_with("/exec") => "exec",
        &Method::DELETE => "delete",
        _ => "get",
    };
    if pods.forbids(verb) || (verb == "delete" && pods.keeps(path)) {
        // A client that cannot send all of its request does not read the answer.
        axum::body::to_bytes(request.into_body(), 1024 * 1024).await.unwrap();
        let message =
            format!("pods is forbidden: User \"me\" cannot {verb} resource \"pods\" in API group \"\"");
        return failure(StatusCode::FORBIDDEN, "Forbidden", &message);
    }
    let response = next.run(request).await;
    match is_create && pods.loses_answer() {
        true => failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "the answer was lost"),
        false => response,
    }
}

async fn list(State(pods): State<FakePods>) -> Response {
    let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods.list()});
    Json(list).into_response()
}

async fn create(
    State(pods): State<FakePods>,
    Path(namespace): Path<String>,
    Json(pod): Json<Value>,
) -> Response {
    if namespace != NAMESPACE {
        return no_namespace(&namespace);
    }
    let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut problems = schema::problems("Pod", &pod);
    if pod["spec"]["containers"][0]["image"].is_null() {
        problems.push("spec.containers[0].image: Required value".to_owned());
    }
    if !problems.is_empty() {
        let message = format!("Pod \"{name}\" is invalid: {}", problems.join(", "));
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": "Invalid", "code": 422, "details": {"name": name, "kind": "Pod"},
        });
        return (StatusCode::UNPROCESSABLE_ENTITY, Json(body)).into_response();
    }
    match pods.create(pod) {
        Some(created) => (StatusCode::CREATED, Json(created)).into_response(),
        None => failure(StatusCode::CONFLICT, "AlreadyExists", &format!("pods \"{name}\" already exists")),
    }
}

async fn show(State(pods): State<FakePods>, Path((_, name)): Path<(String, String)>) -> Response {
    pods.get(&name).map_or_else(|| no_pod(&name), |pod| Json(pod).into_response())
}

async fn delete(
    State(pods): State<FakePods>,
    Path((_, name)): Path<(String, String)>,
    Query(query): Query<Vec<(String, String)>>,
    body: Bytes,
) -> Response {
    let options: Value = serde_json::from_slice(&body).unwrap_or_default();
    let problems = if options.is_null() { Vec::new() } else { schema::problems("DeleteOptions", &options) };
    if !problems.is_empty() {
        return failure(StatusCode::BAD_REQUEST, "BadRequest", &problems.join(", "));
    }
    let found = pods.get(&name).map(|pod| pod["metadata"]["uid"].clone());
    let wanted = &options["preconditions"]["uid"];
    if found.is_some() && !wanted.is_null() && found.as_ref() != Some(wanted) {
        let message = format!("Operation cannot be fulfilled on pods \"{name}\": Precondition failed: UID");
        return failure(StatusCode::CONFLICT, "Conflict", &message);
    }
    let asked =
        query.iter().find(|(key, _)| key == "gracePeriodSeconds").map(|(_, value)| value.parse().unwrap());
    let grace = options["gracePeriodSeconds"].as_u64().or(asked).unwrap_or(30);
    let deleted = tokio::task::spawn_blocking(move || pods.delete(&name, grace).ok_or(name)).await.unwrap();
    deleted.map_or_else(|name| no_pod(&name), |pod| Json(pod).into_response())
}

async fn log(State(pods): State<FakePods>, Path((_, name)): Path<(String, String)>) -> Response {
    pods.log(&name).map_or_else(|| no_pod(&name), IntoResponse::into_response)
}
