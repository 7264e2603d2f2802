# Logs in as the job itself, with tokens that were made for it alone; there is no key anywhere.
identity="{= directory|at(0) =}/identity"
(
    umask 077
    mkdir -p "$identity"
    {%- if let Some(token) = token %}
    printf '%s' "{= token|at(0) =}" >"$identity/token"
    {%- endif %}
    {%- if let Some(gcp) = cloud.gcp %}
    {%- if let Some(provider) = gcp.provider %}
    provider={= provider|shell =}
    {%- else %}
    provider=${GCP_WORKLOAD_IDENTITY_PROVIDER:?is not set: projects/.../providers/...}
    {%- endif %}
    {%- if let Some(account) = gcp.service_account %}
    account={= account|shell =}
    {%- else %}
    account=${GCP_SERVICE_ACCOUNT:?is not set: the service account to be}
    {%- endif %}
    # Where Google's libraries find the token, and what they change it for.
    {
        printf '{"type":"external_account",'
        printf '"audience":"//iam.googleapis.com/%s",' "$provider"
        printf '"subject_token_type":"urn:ietf:params:oauth:token-type:jwt",'
        printf '"token_url":"https://sts.googleapis.com/v1/token",'
        printf '"credential_source":{"file":"%s"},' "{= files.gcp|at(0) =}"
        printf '"service_account_impersonation_url":"https://iamcredentials.googleapis.com/v1/'
        printf 'projects/-/serviceAccounts/%s:generateAccessToken"}\n' "$account"
    } >"$identity/google.json"
    {%- endif %}
) || exit 1
{%- if let Some(aws) = cloud.aws %}
{%- if let Some(role) = aws.role %}
AWS_ROLE_ARN={= role|shell =}
{%- else %}
: "${AWS_ROLE_ARN:?is not set: the role to take on}"
{%- endif %}
{%- if let Some(region) = aws.region %}
AWS_REGION={= region|shell =}
{%- else %}
: "${AWS_REGION:?is not set: the region of AWS}"
{%- endif %}
AWS_WEB_IDENTITY_TOKEN_FILE="{= files.aws|at(0) =}"
export AWS_ROLE_ARN AWS_REGION AWS_WEB_IDENTITY_TOKEN_FILE
{%- endif %}
{%- if cloud.gcp.is_some() %}
GOOGLE_APPLICATION_CREDENTIALS="$identity/google.json"
export GOOGLE_APPLICATION_CREDENTIALS
{%- endif %}
{%- if let Some(azure) = cloud.azure %}
{%- if let Some(id) = azure.client_id %}
ARM_CLIENT_ID={= id|shell =}
{%- else %}
ARM_CLIENT_ID=${AZURE_CLIENT_ID:?is not set: the application to be}
{%- endif %}
{%- if let Some(id) = azure.tenant_id %}
ARM_TENANT_ID={= id|shell =}
{%- else %}
ARM_TENANT_ID=${AZURE_TENANT_ID:?is not set: the directory that the application is in}
{%- endif %}
{%- if let Some(id) = azure.subscription_id %}
ARM_SUBSCRIPTION_ID={= id|shell =}
{%- else %}
ARM_SUBSCRIPTION_ID=${AZURE_SUBSCRIPTION_ID:?is not set: the subscription}
{%- endif %}
ARM_USE_OIDC=true
ARM_OIDC_TOKEN_FILE_PATH="{= files.azure|at(0) =}"
export ARM_USE_OIDC ARM_CLIENT_ID ARM_TENANT_ID ARM_SUBSCRIPTION_ID ARM_OIDC_TOKEN_FILE_PATH
{%- endif %}
