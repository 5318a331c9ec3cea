module sandbox/pulumi-kubernetes

go 1.26

require github.com/pulumi/pulumi-kubernetes/provider/v4 v4.0.0-20260115033456-f47bc2d6f199

// The provider's own replacement; a replace directive does not travel with a module.
replace github.com/atotto/clipboard => github.com/tgummerer/clipboard v0.0.0-20241001131231-d02d263e614e
