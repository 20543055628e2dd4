//! A route and its description in one value, so that none is there without the other; and the
//! OpenAPI document that all descriptions together make.

use axum::Router;
use axum::extract::{Query, Request};
use axum::handler::Handler;
use axum::http::Uri;
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, delete, get, patch, post};
use rappel::answers::schemas;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::problem::{ErrorAnswer, Problem};

type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

/// One method of one address: who answers it, and what is said of it.
pub struct Endpoint {
    method: &'static str,
    path: &'static str,
    router: MethodRouter<App>,
    summary: &'static str,
    query: Vec<MakeSchema>,
    body: Option<MakeSchema>,
    answers: Vec<(u16, Option<MakeSchema>, &'static str)>,
}

/// Endpoints of each method.
macro_rules! endpoints {
    ($($name:ident, $method:literal, $router:ident;)*) => {$(
        pub fn $name<H, T>(path: &'static str, summary: &'static str, handler: H) -> Endpoint
        where
            H: Handler<T, App>,
            T: 'static,
        {
            Endpoint {
                method: $method,
                path,
                router: $router(handler),
                summary,
                query: Vec::new(),
                body: None,
                answers: Vec::new(),
            }
        }
    )*};
}

endpoints! {
    on_get, "get", get;
    on_post, "post", post;
    on_patch, "patch", patch;
    on_delete, "delete", delete;
}

impl Endpoint {
    /// Values behind the `?`, as the properties of `T`.
    pub fn query<T: JsonSchema>(mut self) -> Self {
        self.query.push(SchemaGenerator::subschema_for::<T>);
        self
    }

    /// The body.
    pub fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(SchemaGenerator::subschema_for::<T>);
        self
    }

    /// What it answers with this status, as JSON.
    pub fn answers<T: JsonSchema>(mut self, status: u16) -> Self {
        self.answers.push((status, Some(SchemaGenerator::subschema_for::<T>), "application/json"));
        self
    }

    /// What it answers with this status, as bytes of another kind.
    pub fn sends(mut self, status: u16, kind: &'static str) -> Self {
        self.answers.push((status, None, kind));
        self
    }

    fn operation(&self, schemas: &mut Schemas) -> Value {
        let mut operation = Map::new();
        operation.insert("summary".into(), self.summary.into());
        operation.insert("operationId".into(), self.id().into());
        let parts = self.path.split('/').filter_map(|part| part.strip_prefix('{'));
        let mut parameters: Vec<Value> = parts
            .map(|part| {
                let name = part.trim_end_matches('}').trim_start_matches('*');
                json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}})
            })
            .collect();
        for make in &self.query {
            parameters.extend(query_parameters(schemas.request(*make)));
        }
        operation.insert("parameters".into(), parameters.into());
        if let Some(make) = self.body {
            let schema = schemas.request(make);
            let content = json!({"application/json": {"schema": schema}});
            operation.insert("requestBody".into(), json!({"content": content}));
        }
        operation.insert("responses".into(), self.responses(&mut schemas.answers));
        operation.into()
    }

    fn responses(&self, generator: &mut SchemaGenerator) -> Value {
        let mut responses = Map::new();
        for (status, make, kind) in &self.answers {
            let media = match make {
                Some(make) => json!({"schema": make(generator)}),
                None => json!({}),
            };
            let content = json!({"description": "Done", "content": {*kind: media}});
            match responses.get_mut(&status.to_string()) {
                // A second kind of content with the same status.
                Some(known) => known["content"][*kind] = content["content"][*kind].clone(),
                None => drop(responses.insert(status.to_string(), content)),
            }
        }
        let error = generator.subschema_for::<ErrorAnswer>();
        for (status, description) in [
            ("400", "The request is malformed"),
            ("401", "The token is missing or wrong"),
            ("403", "The Host or Origin is not ours"),
            ("404", "There is no such thing"),
            ("408", "The request took too long to arrive"),
            ("409", "Something changed, is busy, or has to be confirmed"),
            ("413", "The request is too long"),
            ("422", "A value is out of range"),
            ("500", "It failed; the store may be damaged"),
        ] {
            let content = json!({"application/json": {"schema": error}});
            responses
                .insert(status.into(), json!({"description": description, "content": content}));
        }
        responses.into()
    }

    /// What may stand behind the `?`. Every route may be asked about a workspace.
    fn query_keys(&self) -> Vec<String> {
        let mut schemas = Schemas::new();
        let parameters =
            self.query.iter().flat_map(|make| query_parameters(schemas.request(*make)));
        let names = parameters.filter_map(|one| one["name"].as_str().map(ToOwned::to_owned));
        std::iter::once("workspace".to_owned()).chain(names).collect()
    }

    /// `get_api_checkpoints_id`.
    fn id(&self) -> String {
        let words = self.path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty());
        std::iter::once(self.method).chain(words).collect::<Vec<_>>().join("_")
    }
}

/// Schemas of what callers send, and of what they are answered. The same type may differ in both: a
/// field with a default may be left out of a request only.
struct Schemas {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let mut requests = SchemaSettings::draft2020_12();
        // Each stands where it is used, so that its name means nothing else among the answers.
        requests.inline_subschemas = true;
        let mut answers = schemas::settings();
        answers.definitions_path = "/components/schemas".into();
        Self { requests: requests.into_generator(), answers: answers.into_generator() }
    }

    /// Of what a caller sends.
    fn request(&mut self, make: MakeSchema) -> Schema {
        let mut schema = make(&mut self.requests);
        // A set is the same set if the caller names something twice.
        RecursiveTransform(|schema: &mut Schema| drop(schema.remove("uniqueItems")))
            .transform(&mut schema);
        schema
    }
}

/// The properties of a schema, as parameters behind the `?`.
fn query_parameters(schema: Schema) -> Vec<Value> {
    let schema = Value::from(schema);
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let parameter = |(name, mut schema): (String, Value)| {
        let about = schema.as_object_mut().and_then(|it| it.remove("description"));
        let required = required.contains(&Value::from(name.clone()));
        json!({"name": name, "in": "query", "required": required, "schema": schema, "description": about})
    };
    properties.into_iter().map(parameter).collect()
}

/// A router that answers all of them.
pub fn router(endpoints: Vec<Endpoint>) -> Router<App> {
    let add = |router: Router<App>, one: Endpoint| {
        let keys = one.query_keys();
        let check = move |request: Request, next: Next| {
            let refusal = unknown_key(request.uri(), &keys);
            async move {
                match refusal {
                    Some(refusal) => refusal.into_response(),
                    None => next.run(request).await,
                }
            }
        };
        router.route(one.path, one.router.layer(middleware::from_fn(check)))
    };
    endpoints.into_iter().fold(Router::new(), add)
}

/// Why a route refuses an address: it does not know one of the keys behind the `?`. A route that
/// passed over such a key would carry out `?dry_run=true` where it takes that in the body.
fn unknown_key(address: &Uri, known: &[String]) -> Option<Problem> {
    // A query that cannot be read is refused by the route.
    let Query(asked) = Query::<Vec<(String, String)>>::try_from_uri(address).ok()?;
    let (unknown, _) = asked.iter().find(|(key, _)| !known.contains(key))?;
    let message = format!("this route does not know `{unknown}` behind the `?`");
    Some(Problem::malformed(message).hint(format!("it knows {}", known.join(", "))))
}

/// The OpenAPI document.
pub fn openapi(endpoints: &[Endpoint]) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    for one in endpoints {
        let operation = one.operation(&mut schemas);
        let path = one.path.replace("{*", "{");
        let entry = paths.entry(path).or_insert_with(|| json!({}));
        entry[one.method] = operation;
    }
    let schemas = schemas.answers.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Rappel",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Save states for AI coding agents. Every route that is about a workspace \
                takes `?workspace=` (an id or a folder); without it, the one that the server was \
                started in is meant.",
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": schemas},
    })
}
