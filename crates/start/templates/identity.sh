# The job's identity in clouds: the providers exchange the token of the CI system for one of the cloud.
umask 077
{%- if in_memory %}
# In memory if possible. The name is the same for the next job in this directory, which first removes the
# files of an earlier job.
identity="{= temporary|at(0) =}/butler-identity"
rm -rf "$identity"
if [ -w /dev/shm ]; then
    mark=$(printf '%s ' "$(id -u)" "$(uname -n)" "$identity" | cksum)
    memory="/dev/shm/butler-identity.${mark%% *}"
    rm -rf "$memory" 2>/dev/null || true
    # If another user owns a directory of this name, the token stays in the job's directory.
    if mkdir "$memory" 2>/dev/null; then identity=$memory; fi
fi
[ -d "$identity" ] || mkdir "$identity"
{%- else %}
# First removes the files of an earlier job.
rm -rf "{= temporary|at(0) =}"/butler-identity.*
identity=$(mktemp -d "{= temporary|at(0) =}/butler-identity.XXXXXX")
{%- endif %}
{%- if let Some(aws) = cloud.aws %}
{%- if let Some(role) = aws.role %}
AWS_ROLE_ARN={= role|shell =}
{%- endif %}
{%- if let Some(region) = aws.region %}
AWS_REGION={= region|shell =}
{%- endif %}
export AWS_ROLE_ARN="${AWS_ROLE_ARN:?is not set}" AWS_REGION="${AWS_REGION:?is not set}"
export AWS_ROLE_SESSION_NAME="butler-run"
{%- if in_files %}
AWS_WEB_IDENTITY_TOKEN_FILE="$AWS_ID_TOKEN"
{%- else %}
printf %s "$AWS_ID_TOKEN" >"$identity/aws"
AWS_WEB_IDENTITY_TOKEN_FILE="$identity/aws"
{%- endif %}
export AWS_WEB_IDENTITY_TOKEN_FILE
{%- endif %}
{%- if let Some(gcp) = cloud.gcp %}
{%- if let Some(provider) = gcp.provider %}
GCP_WORKLOAD_IDENTITY_PROVIDER={= provider|shell =}
{%- endif %}
{%- if let Some(service_account) = gcp.service_account %}
GCP_SERVICE_ACCOUNT={= service_account|shell =}
{%- endif %}
{%- if in_files %}
gcp_token="$GCP_ID_TOKEN"
{%- else %}
gcp_token="$identity/gcp"
printf %s "$GCP_ID_TOKEN" >"$gcp_token"
{%- endif %}
printf '{
  "type": "external_account",
  "audience": "//iam.googleapis.com/%s",
  "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
  "token_url": "https://sts.googleapis.com/v1/token",
  "service_account_impersonation_url": "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/%s:generateAccessToken",
  "credential_source": { "file": "%s" }
}\n' "${GCP_WORKLOAD_IDENTITY_PROVIDER:?is not set}" "${GCP_SERVICE_ACCOUNT:?is not set}" "$gcp_token" >"$identity/gcp.json"
export GOOGLE_APPLICATION_CREDENTIALS="$identity/gcp.json"
{%- endif %}
{%- if let Some(azure) = cloud.azure %}
{%- if let Some(id) = azure.client_id %}
ARM_CLIENT_ID={= id|shell =}
{%- else %}
ARM_CLIENT_ID="${AZURE_CLIENT_ID:?is not set}"
{%- endif %}
{%- if let Some(id) = azure.tenant_id %}
ARM_TENANT_ID={= id|shell =}
{%- else %}
ARM_TENANT_ID="${AZURE_TENANT_ID:?is not set}"
{%- endif %}
{%- if let Some(id) = azure.subscription_id %}
ARM_SUBSCRIPTION_ID={= id|shell =}
{%- else %}
ARM_SUBSCRIPTION_ID="${AZURE_SUBSCRIPTION_ID:?is not set}"
{%- endif %}
export ARM_USE_OIDC=true ARM_CLIENT_ID ARM_TENANT_ID ARM_SUBSCRIPTION_ID
{%- if in_files %}
ARM_OIDC_TOKEN_FILE_PATH="$AZURE_ID_TOKEN"
{%- else %}
printf %s "$AZURE_ID_TOKEN" >"$identity/azure"
ARM_OIDC_TOKEN_FILE_PATH="$identity/azure"
{%- endif %}
export ARM_OIDC_TOKEN_FILE_PATH
{%- endif %}
umask 022
