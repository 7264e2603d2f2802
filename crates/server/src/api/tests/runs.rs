//! Lists of runs.

use super::*;

#[tokio::test]
async fn runs_of_all_layers_are_listed_the_newest_first() {
    let tested = tested().await;
    let mut runs = Vec::new();
    for layer in ["a", "b", "a"] {
        runs.push(tested.plan(layer).await);
    }
    runs.reverse();
    let list = async |query: &str| {
        let list = tested.get(&format!("/runs{query}")).await;
        let items = list["items"].as_array().unwrap().iter();
        let ids: Vec<String> = items.map(|run| run["id"].as_str().unwrap().to_owned()).collect();
        (ids, list["next"].clone())
    };
    assert_eq!(list("").await, (runs.clone(), Value::Null));
    assert_eq!(list("?limit=2").await, (runs[..2].to_vec(), runs[1].as_str().into()));
    assert_eq!(list(&format!("?after={}", runs[1])).await.0, [runs[2].clone()]);
    assert_eq!(list("?layer=b").await.0, [runs[1].clone()]);
    let all = tested.get("/runs").await;
    assert_eq!((&all["items"][0]["layer"], &all["items"][1]["layer"]), (&"a".into(), &"b".into()));
}
