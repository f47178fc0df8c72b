// This file lets nofile declare a function without a body.
