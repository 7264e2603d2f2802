# The module of the recording. It uses only resources that are built into Terraform, with delays.

variable "subnets" {
  type    = set(string)
  default = ["eu-1a", "eu-1b", "eu-1c"]
}

resource "terraform_data" "network" {
  input = "10.0.0.0/16"
}

resource "terraform_data" "subnet" {
  for_each = var.subnets
  input    = "${terraform_data.network.output} in ${each.key}"

  provisioner "local-exec" {
    command = "sleep ${index(tolist(var.subnets), each.key) + 2}"
    quiet   = true
  }
}

resource "terraform_data" "database" {
  depends_on = [terraform_data.subnet]
  input      = "postgres"

  provisioner "local-exec" {
    command = "sleep 2"
    quiet   = true
  }
}

output "subnets" {
  value = keys(terraform_data.subnet)
}
