//! The OpenAPI document.

use std::collections::BTreeSet;

use super::*;

async fn document(tested: &Tested) -> Value {
    let (status, document) = tested.ask(Method::GET, "/openapi.json", None, None).await;
    assert_eq!(status, StatusCode::OK);
    document
}

/// All values of the field `name`, at any depth.
fn fields<'a>(document: &'a Value, name: &str, found: &mut Vec<&'a Value>) {
    match document {
        Value::Array(items) => items.iter().for_each(|item| fields(item, name, found)),
        Value::Object(members) => {
            found.extend(members.get(name));
            members.values().for_each(|member| fields(member, name, found));
        }
        _ => {}
    }
}

/// The names of the parameters of an operation that are in this part of a request.
fn parameters<'a>(operation: &'a Value, part: &str) -> Vec<&'a str> {
    let all = operation["parameters"].as_array().unwrap().iter();
    all.filter(|it| it["in"] == part).map(|it| it["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn document_has_each_route_with_parameters_and_answers() {
    let document = document(&tested().await).await;
    assert_eq!(document["openapi"], "3.1.0");
    for field in ["title", "version"] {
        assert!(document["info"][field].is_string(), "{field}");
    }
    let mut count = 0;
    for route in routes::<MemoryStore>() {
        count += 1;
        let method = route.method.as_str().to_ascii_lowercase();
        let operation = &document["paths"][route.path][method];
        assert_eq!(operation["summary"], route.summary, "{route:?}");
        assert!(operation["description"].as_str().unwrap().contains(route.role.name()));
        let braces = route.path.split('/').filter(|part| part.starts_with('{'));
        let names: Vec<&str> = braces.map(|part| part.trim_matches(['{', '}'])).collect();
        assert_eq!(parameters(operation, "path"), names, "{route:?}");
        let mut unique = BTreeSet::new();
        for parameter in operation["parameters"].as_array().unwrap() {
            assert!(unique.insert((parameter["in"].as_str(), parameter["name"].as_str())));
            assert!(parameter["schema"].is_object(), "{parameter}");
            assert!(["path", "query", "header"].contains(&parameter["in"].as_str().unwrap()));
            assert!(parameter["in"] != "path" || parameter["required"] == true, "{parameter}");
        }
        let responses = operation["responses"].as_object().unwrap();
        assert_eq!(responses.len(), 2, "{route:?}");
        for (status, response) in responses {
            assert!(["200", "202", "default"].contains(&status.as_str()), "{status}");
            assert!(response["description"].is_string(), "{route:?}");
            assert!(!response["content"].as_object().unwrap().is_empty(), "{route:?}");
        }
    }
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.keys().all(|path| path.starts_with('/')));
    let operations: usize = paths.values().map(|path| path.as_object().unwrap().len()).sum();
    assert_eq!(operations, count);
    let mut references = Vec::new();
    fields(&document, "$ref", &mut references);
    assert!(references.len() > 10);
    for reference in references {
        let pointer = reference.as_str().unwrap().strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    let run = &document["components"]["schemas"]["RunView"]["properties"];
    for field in ["id", "phase", "over", "planDigest", "attempts"] {
        assert!(run[field].is_object(), "{field}: {run}");
    }
}

#[tokio::test]
async fn each_parameter_of_a_query_is_documented() {
    let tested = tested().await;
    let document = document(&tested).await;
    let run = tested.plan("a").await;
    let administrator = token(Role::Administrator);
    let mut with_query = 0;
    for route in routes::<MemoryStore>() {
        let path = route.path.replace("{layer}", "a").replace("{run}", &run);
        let path = path.replace("{repository}", "infra");
        let method = route.method.as_str().to_ascii_lowercase();
        let names = parameters(&document["paths"][route.path][method], "query");
        let ask = async |query: &str| {
            let path = format!("{path}?{query}");
            tested.ask(route.method.clone(), &path, Some(&administrator), None).await.1.to_string()
        };
        if names.is_empty() {
            continue;
        }
        with_query += 1;
        let error = ask("bogus=1").await;
        assert!(error.contains("bogus"), "{route:?}: {error}");
        for name in &names {
            let answer = ask(&format!("{name}=1")).await;
            assert!(!answer.contains("unknown field"), "{answer}");
            assert!(!answer.contains("is not a parameter"), "{answer}");
        }
    }
    assert_eq!(with_query, 6);
    // The query of layers is not made from the type that describes it.
    let layers = parameters(&document["paths"]["/layers"]["get"], "query");
    let (_, error) = tested.ask(Method::GET, "/layers?bogus=1", Some(&administrator), None).await;
    let message = error["error"]["message"].as_str().unwrap();
    let (_, listed) = message.split_once(": use ").unwrap();
    let listed: BTreeSet<&str> =
        listed.split([',', ' ']).filter(|it| !["", "or"].contains(it)).collect();
    assert_eq!(listed, layers.into_iter().collect());
}
