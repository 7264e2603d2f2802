//! All pages, and the role that each needs.

use axum::Router;
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, post};

use super::guard::guard;
use super::message::not_found;
use super::{actions, assets, followers, layer, lists, overview, run, sign_in};
use crate::api::{Role, Shared};
use crate::store::Store;

/// A page, or a form of one.
pub struct PageRoute<S> {
    /// The method.
    pub method: Method,
    /// The path.
    pub path: &'static str,
    /// The lowest role that may open it; `None` for what is open to browsers that are not signed in.
    pub role: Option<Role>,
    handler: MethodRouter<Shared<S>>,
}

impl<S> std::fmt::Debug for PageRoute<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let role = self.role.map_or("open", Role::name);
        write!(formatter, "{} {} ({role})", self.method, self.path)
    }
}

/// The pages that users open: the path, the lowest role, and what it shows.
pub const PAGES: [(&str, Role, &str); 7] = [
    ("/", Role::Viewer, "What needs a person, and all layers."),
    ("/layers/{layer}", Role::Viewer, "A layer with its history."),
    ("/runs/{run}", Role::Viewer, "A run with its plan and its log."),
    ("/repositories", Role::Viewer, "When repositories were read."),
    ("/followers", Role::Viewer, "Followers with their phases and timings."),
    ("/events", Role::Viewer, "What happened."),
    ("/access", Role::Administrator, "Users with roles and layers."),
];

/// All pages and forms. Forms have the paths and roles of the API's changes.
pub fn routes<S: Store + 'static>(state: &Shared<S>) -> Vec<PageRoute<S>> {
    let handlers = [
        get(overview::show::<S>),
        get(layer::show::<S>),
        get(run::show::<S>),
        get(lists::repositories::<S>),
        get(followers::show::<S>),
        get(lists::events::<S>),
        get(lists::access::<S>),
    ];
    let pages = PAGES.into_iter().zip(handlers).map(|((path, role, _), handler)| PageRoute {
        method: Method::GET,
        path,
        role: Some(role),
        handler,
    });
    let forms = actions::all(state).into_iter().map(|(path, role, handler)| PageRoute {
        method: Method::POST,
        path,
        role: Some(role),
        handler,
    });
    let sign_out = PageRoute {
        method: Method::POST,
        path: "/sign-out",
        role: Some(Role::Viewer),
        handler: post(sign_in::sign_out::<S>),
    };
    let open = |method, path, handler| PageRoute { method, path, role: None, handler };
    let open = [
        open(Method::GET, "/sign-in", get(sign_in::show::<S>)),
        open(Method::POST, "/sign-in", post(sign_in::sign_in::<S>)),
        open(Method::GET, "/assets/{name}", get(assets::asset)),
    ];
    pages.chain(forms).chain([sign_out]).chain(open).collect()
}

/// The router of all pages. Each request is authorized before its handler is called.
pub fn router<S: Store + 'static>(state: Shared<S>) -> Router {
    let mut router = Router::new();
    for route in routes(&state) {
        let handler = match route.role {
            Some(role) => {
                let state = (state.clone(), role);
                route.handler.layer(from_fn_with_state(state, guard::<S>))
            }
            None => route.handler,
        };
        router = router.route(route.path, handler);
    }
    router.fallback(not_found::<S>).with_state(state)
}
