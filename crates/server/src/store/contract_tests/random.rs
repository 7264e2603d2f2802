//! Random transactions on two stores at the same time.

use super::*;

/// Random transactions have the same results as in memory.
pub(in crate::store) async fn transactions_equal_those_in_memory(tested: Tested<impl Store>) {
    let memory = MemoryStore::new(tested.clock.clock());
    let mut random = fastrand::Rng::with_seed(11);
    let names = ["a", "b", "c"];
    let mut attempts: Vec<AttemptId> = Vec::new();
    for step in 0..600_u64 {
        tested.clock.set(step * 1000);
        let name = *random.choice(&names).unwrap();
        let key = *random.choice(&["one", "two"]).unwrap();
        let seen = memory.snapshot(&layer(name), key, &[]).await.unwrap();
        let change = seen.observation.as_ref().map_or(0, |observation| observation.change);
        let digest = format!("d{}", random.u8(..3));
        let attempt = random.choice(&attempts).cloned();
        macro_rules! both {
            ($store:ident, $call:expr) => {{
                let one = {
                    let $store = &tested.store;
                    $call.await.unwrap()
                };
                let $store = &memory;
                assert_eq!(one, $call.await.unwrap(), "step {step}");
            }};
        }
        match random.u8(..10) {
            0 => {
                let readings = memory.readings("infra").await.unwrap();
                let seen = [(layer(name), found(&digest))];
                both!(store, store.observe("infra", readings, &seen, &[]));
            }
            1 | 2 => {
                let action = *random.choice(&[Action::Plan, Action::Apply, Action::Drift]).unwrap();
                let cause = Cause::Person { request: random.u8(..4).to_string() };
                let run = new_run(name, action, cause, &digest, change);
                both!(store, store.insert_run(&layer(name), run.clone()));
            }
            3 | 4 => {
                let Some(run) = seen.facts.runs.last() else { continue };
                let number = u32::try_from(run.attempts.len()).unwrap() + 1;
                let id = AttemptId { layer: layer(name), run: run.id.clone(), number };
                let after = if random.bool() { vec![layer("a")] } else { Vec::new() };
                let request = StartRequest {
                    attempt: &id,
                    state_key: key,
                    after: &after,
                    concurrency: 2,
                    repository: if name == "c" { "other" } else { "infra" },
                    repository_concurrency: random.bool().then_some(1),
                    timeout: TIMEOUT,
                    place: "this machine",
                    token: &TokenHash::of("brce_test"),
                    fence: None,
                };
                both!(store, store.start_attempt(request));
                attempts.push(id);
            }
            5 => {
                let Some(id) = attempt else { continue };
                both!(store, store.note(&id, Note::Heartbeat));
            }
            6 => {
                let Some(id) = attempt else { continue };
                let result = match random.u8(..4) {
                    0 => AttemptResult::ended(Ending::Failed(FailureClass::Lock)),
                    1 => saved(&format!("p{step}"), true),
                    _ => saved(&format!("p{step}"), false),
                };
                both!(store, store.finish(&id, result.clone()));
            }
            7 => {
                let mut plans = seen.facts.runs.iter().filter_map(|run| run.plan.as_ref());
                let Some(plan) = plans.next_back().map(|plan| plan.digest.clone()) else {
                    continue;
                };
                both!(store, store.approve(&layer(name), &plan, "ana"));
            }
            8 => both!(store, store.reset_breaker("ana")),
            _ => {
                let Some(run) = seen.facts.runs.first() else { continue };
                let why = Closed::Superseded;
                both!(store, store.close_run(&layer(name), &run.id, why));
            }
        }
        for name in names {
            let expected = memory.snapshot(&layer(name), key, &[layer("a")]).await.unwrap();
            let found = tested.store.snapshot(&layer(name), key, &[layer("a")]).await.unwrap();
            assert_eq!(found.observation, expected.observation, "step {step}");
            assert_eq!(found.facts.runs, expected.facts.runs, "step {step}");
            assert_eq!(found.facts.lease, expected.facts.lease, "step {step}");
            assert_eq!(found.facts.applied, expected.facts.applied, "step {step}");
            assert_eq!(found.facts.upstream_apply, expected.facts.upstream_apply, "step {step}");
            assert_eq!(found.running, expected.running, "step {step}");
            assert_eq!(found.breaker, expected.breaker, "step {step}");
        }
        let commits = tested.store.commits().await.unwrap();
        assert_eq!(commits, memory.commits().await.unwrap(), "step {step}");
    }
    let journal = memory.events(None, None, u32::MAX).await.unwrap();
    assert_eq!(tested.store.events(None, None, u32::MAX).await.unwrap(), journal);
    assert!(attempts.len() > 50);
}
