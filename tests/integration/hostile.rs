//! Configurations, repositories and caches that mean harm.
